// Package trust stores the user's consent to team configurations that a command found, for example
// in a cloned repository, rather than was given by name. Demands lists the settings that need
// consent. Remember records consent to a File by a hash of its place, its bytes and the
// files that its programs name. Start with Demands in demands.go.
package trust
