// Package trust stores the user's consent to team configurations that a command found, for example
// in a cloned repository, rather than was given by name. Demands lists the settings that need
// consent. Remember records consent by the hash of a file's bytes. Start with Demands in
// demands.go.
package trust
