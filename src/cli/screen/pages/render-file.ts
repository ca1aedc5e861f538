import type { FileReport } from '../../../control/file-report.ts';
import { formatBytes } from '../../../control/presentation/bytes.ts';
import type { Row } from '../../../control/presentation/rows/row.ts';
import { shellWord } from '../../arguments/shell-word.ts';
import { renderRows } from '../layout.ts';
import type { Page } from '../page.ts';

export function renderFile(report: FileReport, page: Page): string {
  const { deviceTypes, securityVersion, payloads, obstacles, digest } = report;
  const rows: readonly Row[] = [
    { label: 'File', paragraphs: [whatItIs(report)] },
    { label: 'Digest', paragraphs: digest === undefined ? [] : [digest] },
    { label: 'Device types', paragraphs: deviceTypes === undefined ? [] : [deviceTypes.join(', ')] },
    { label: 'Signature', paragraphs: signedBy(report) },
    { label: 'Security', paragraphs: securityVersion === undefined ? [] : [`version ${securityVersion}`] },
    { label: 'Trust list', paragraphs: listLines(report) },
    { label: 'Contents', paragraphs: payloads.map(payloadLine) },
    verdict(report),
    {
      label: 'Reasons',
      paragraphs: obstacles
        .flatMap(({ code, message, advice = '' }) => [`${message} (${code})`, advice])
        .filter((text) => text !== ''),
    },
  ];
  return renderRows(rows, page);
}

function whatItIs({ kind, name, file }: FileReport): string {
  switch (kind) {
    case 'artifact':
      return `${name ?? file}, a Mender Artifact`;
    case 'image':
      return `${file}, an image without a signature`;
    case 'trust-list':
      return `${name ?? file}, a trust list`;
    case undefined:
      return `${file}, which is neither an artifact nor an image`;
  }
}

function signedBy({ kind, signature, signedBy: key, unjudged }: FileReport): readonly string[] {
  if (kind === 'image' || signature === undefined) return [];
  if (signature === 'none') return ['not signed'];
  if (key !== undefined) return [`by ${key.name ?? 'a trusted key'}, ${key.fingerprint}`];
  return [
    unjudged === undefined ? 'by a key that is not trusted here' : 'not checked: no configuration names trusted keys',
  ];
}

function listLines({ trustList }: FileReport): readonly string[] {
  if (trustList === undefined) return [];
  const changes = trustList.changes.length === 0 ? ['no changes on this gateway'] : trustList.changes;
  return [`number ${trustList.number}`, ...changes];
}

function payloadLine({ fileName, target, sizeBytes, digest, base }: FileReport['payloads'][number]): string {
  const details = [
    sizeBytes === undefined ? '' : formatBytes(sizeBytes),
    target === undefined ? '' : `for ${target}`,
    digest ?? '',
    base === undefined ? '' : `a delta from ${base}`,
  ].filter((fact) => fact !== '');
  return [fileName, ...details].join(', ');
}

const NAME_A_CONFIGURATION = 'To check the file, name a configuration with --config FILE.';

function verdict({ file, obstacles, unjudged, isInstalled }: FileReport): Row {
  const label = 'Result';
  if (obstacles.length > 0) return { label, paragraphs: ['It would not be installed.'], tone: 'bad' };
  if (unjudged !== undefined)
    return { label, paragraphs: [`Unknown: ${unjudged}`, NAME_A_CONFIGURATION], tone: 'attention' };
  if (isInstalled === true) return { label, paragraphs: ['It is already running.'], tone: 'good' };
  return { label, paragraphs: [`It would be installed: agent install ${shellWord(file)}`], tone: 'good' };
}
