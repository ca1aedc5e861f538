import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

/**
 * Everything that can go wrong with a package: with its file (found before dpkg sees it), with what was installed
 * before, or with the installation.
 */
export class PackageError extends defineErrors('PackageError', {
  'package-malformed': permanent.refused(
    'The file is no package that dpkg can read.',
    'dpkg-deb --info FILE shows whether it is one; sign the artifact again with one that is',
  ),
  'package-mismatch': permanent.refused('The file is another package than the one that the target is for.'),
  'package-architecture': permanent.refused('The package is for another architecture than that of this system.'),
  'package-backup-failed': permanent.failed(
    'What is installed cannot be kept so that it could be put back, so nothing is installed.',
    'dpkg --audit, and dpkg --verify PACKAGE, say what is wrong with what is installed',
  ),
  'package-damaged': transient.disk('What is kept of a package is damaged.', 'check the disk of the state directory'),
  'package-refused': permanent.failed(
    'dpkg, or a script of the package, failed; what stood before is installed again.',
    'journalctl -u "thing-agent-package*" has what dpkg said',
  ),
  'package-restored': permanent.failed(
    'No agent judged the package while it was on trial, as one that does not come up; what stood before is installed again.',
  ),
  'package-not-restored': transient.failed(
    'Neither the new package nor what stood before could be installed as a whole.',
    'dpkg --configure -a, and where that does not help dpkg -i of the file in packages/ of the state directory; journalctl -u "thing-agent-package*" has what dpkg said',
  ),
  'package-changed': permanent.failed(
    'Somebody else has installed another version of the package while it was on trial.',
  ),
  'package-installer-unavailable': transient.failed(
    'The guard, which installs packages outside of the agent, could not be asked.',
    'systemctl start thing-agent-package.socket; journalctl -u "thing-agent-package*" has what the guard said',
  ),
  'checkpoint-stale': sharedErrors['checkpoint-stale'],
}) {}
