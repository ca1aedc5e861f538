# Stands for the helper's socket unit: listens for the agent's user, starts the helper with the socket when somebody
# connects, and listens again when it has ended. SIGUSR1 ends a helper that runs.
# usage: perl listen-for-helper.pl SOCKET USER PROGRAM [ARGUMENT ...]
use strict;
use warnings;
use POSIX ();
use Socket;
$| = 1;
$^F = 3; # sd_listen_fds(3): the helper gets the socket as descriptor 3
my ($path, $user, @program) = @ARGV;
umask 0177;
socket(my $socket, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
die "the socket is descriptor " . fileno($socket) if fileno($socket) != 3;
bind($socket, pack_sockaddr_un($path)) or die "bind: $!";
listen($socket, 8) or die "listen: $!";
chown($user, -1, $path) or die "chown: $!";
umask 022;
my $helper;
$SIG{USR1} = sub { kill('TERM', $helper) if defined $helper };
$SIG{TERM} = sub { kill('TERM', $helper) if defined $helper; exit };
for (;;) {
  print "listening\n";
  my $ready = '';
  do { vec($ready = '', 3, 1) = 1 } until select($ready, undef, undef, undef) > 0;
  $helper = fork() // die "fork: $!";
  if ($helper == 0) {
    @ENV{'LISTEN_FDS', 'LISTEN_PID'} = (1, $$);
    exec(@program) or die "exec: $!";
  }
  1 until waitpid($helper, 0) == $helper;
  $helper = undef;
}
