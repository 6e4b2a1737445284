// Package trust keeps the user's consent to team configurations that a command found
// instead of being told of them by name, as in a cloned repository. Demands lists the
// settings that need consent; Store remembers it by the hash of a file's bytes.
package trust
