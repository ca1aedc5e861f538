# Prints what arrives at a Unix datagram socket, one line for each message, as systemd's notification socket would read it.
use strict;
use warnings;
use Socket;
$| = 1;
my $path = shift;
socket(my $socket, PF_UNIX, SOCK_DGRAM, 0) or die "socket: $!";
bind($socket, pack_sockaddr_un($path)) or die "bind: $!";
print "listening\n";
while (defined recv($socket, my $message, 65536, 0)) {
  $message =~ s/\n+$//;
  $message =~ s/\n/|/g;
  print "$message\n";
}
