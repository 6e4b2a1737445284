// Package peer restricts servers on loopback, whose ports every user of the machine
// can reach, to the connections of one user. It uses the kernel's record of the
// user that owns the other end of a local connection (Linux, macOS). Start with
// New.
package peer
