import { ServiceError } from '../errors.ts';

/** Paths of interface.md, "Endpoints". Every id is percent-encoded as one segment (RFC 3986, section 2.1). */
export const paths = {
  activate: (serialNumber: string) => `/v1/things/activate/${segment('serial number', serialNumber)}.json`,
  currentVersion: (thingId: string) => `${thing(thingId)}/versions/current.json`,
  targetVersion: (thingId: string) => `${thing(thingId)}/versions/target.json`,
  firmware: (thingId: string, versionId: string) => `${version(thingId, versionId)}/firmware.json`,
  updates: (thingId: string, fromVersionId: string) => `${version(thingId, fromVersionId)}/updates.json`,
  switchTo: (thingId: string, versionId: string) => `${version(thingId, versionId)}/switch.json`,
  property: (thingId: string, propertyId: string) =>
    `${thing(thingId)}/properties/${segment('property id', propertyId)}/value.json`,
  datapoints: (thingId: string, eventId: string) =>
    `${thing(thingId)}/events/${segment('event id', eventId)}/datapoints.json`,
} as const;

function thing(thingId: string): string {
  return `/v1/things/${segment('thing id', thingId)}`;
}

function version(thingId: string, versionId: string): string {
  return `${thing(thingId)}/versions/${segment('version id', versionId)}`;
}

/** One path segment. Empty and dot segments would name another resource, lone surrogates cannot be encoded. */
function segment(what: string, id: string): string {
  if (id === '' || id === '.' || id === '..' || !id.isWellFormed()) {
    throw new ServiceError({ code: 'id-unusable', why: `${JSON.stringify(id)} cannot be used as a ${what}` });
  }
  return encodeURIComponent(id);
}
