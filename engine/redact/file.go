package redact

import (
	"bytes"
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
	binary := bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 // as git judges
	return len(content) <= maxScanned && !binary && r.find(name, content)
}
