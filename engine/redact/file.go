package redact

import (
	"path"
	"strings"
)

// maxScanned is the size, in bytes, up to which contents are searched for secrets.
const maxScanned = 1 << 20

// SecretFile reports whether a file holds credentials, judging by its path, or by a private
// key, a token or a password in its content.
func SecretFile(name string, content []byte) bool {
	r := known()
	name = path.Clean("/" + name)
	if folded := strings.ToLower(name); r.names.MatchString(folded) && !r.examples.MatchString(folded) {
		return true
	}
	return len(content) <= maxScanned && r.find(name, content)
}
