package redact

import "path"

// maxScanned is the size, in bytes, up to which contents are searched for secrets.
const maxScanned = 1 << 20

// SecretFile reports whether a file holds credentials, judging by its path, or by a private
// key, a token or a password in its content.
func SecretFile(name string, content []byte) bool {
	r := known()
	name = path.Clean("/" + name)
	if r.names.MatchString(name) && !r.examples.MatchString(name) {
		return true
	}
	return len(content) <= maxScanned && r.find(name, content)
}
