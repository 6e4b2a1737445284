// Package peer admits connections of one user to servers on loopback, whose ports
// every user of a machine can reach. Linux and macOS tell which user owns the other
// end of a local connection; start with New.
package peer
