import * as z from 'zod';

import { mcuTargetSchema } from '../../mcu/settings.ts';
import { slotsTargetSchema } from '../../slots/settings.ts';
import { packageTargetSchema } from './package-schema.ts';

export const targetSchema = z.discriminatedUnion('kind', [slotsTargetSchema, mcuTargetSchema, packageTargetSchema]);
