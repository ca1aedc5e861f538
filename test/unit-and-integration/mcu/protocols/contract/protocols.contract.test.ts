import { protocolContract } from './protocol-contract.ts';
import { subjects } from './subjects.ts';

for (const [name, subject] of Object.entries(subjects)) protocolContract(name, subject);
