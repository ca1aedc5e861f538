import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

/**
 * All errors of a package: in its file (found before dpkg sees it), in the previously installed package, or during the
 * installation.
 */
export class PackageError extends defineErrors('PackageError', {
  'package-malformed': permanent.refused(
    'The file is not a package that dpkg can read.',
    'check it with dpkg-deb --info FILE; sign the artifact again with a valid package',
  ),
  'package-mismatch': permanent.refused(
    'The file is another package than the one that the target is for.',
    'write the artifact with the package that the target names',
  ),
  'package-architecture': permanent.refused(
    'The package is for another architecture than this system’s.',
    'build the package for this architecture: dpkg --print-architecture',
  ),
  'package-backup-failed': permanent.failed(
    'The installed package cannot be saved for a rollback, so nothing is installed.',
    'to see what is wrong with the installed package: dpkg --audit, and dpkg --verify PACKAGE',
  ),
  'package-damaged': transient.disk('The saved file of a package is damaged.', 'check the disk of the state directory'),
  'package-refused': permanent.failed(
    'dpkg, or a script of the package, failed; the previous package is reinstalled.',
    'see the output of dpkg: journalctl -u "thing-agent-package*"',
  ),
  'package-restored': permanent.failed(
    'No agent ran the health checks while the package was on trial, for example because it does not start; the previous package is reinstalled.',
    'correct the package; its log: journalctl -u thing-agent',
  ),
  'package-not-restored': transient.failed(
    'Neither the new package nor the previous one could be completely installed.',
    'dpkg --configure -a; if that does not help: dpkg -i with the file in packages/ of the state directory; see the output of dpkg: journalctl -u "thing-agent-package*"',
  ),
  'package-changed': permanent.failed(
    'Another version of the package was installed manually while it was on trial.',
    'nothing; to install the assigned version: agent --update-now',
  ),
  'package-installer-unavailable': transient.failed(
    'The package installer, which installs packages outside of the agent, is not available.',
    'systemctl start thing-agent-package.socket; see the output of the installer: journalctl -u "thing-agent-package*"',
  ),
  'checkpoint-stale': sharedErrors['checkpoint-stale'],
}) {}
