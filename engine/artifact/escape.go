package artifact

import (
	"fmt"
	"path"
	"strings"
)

// MaxPath is the length of a workspace path as EscapePath writes it. It leaves
// room in MaxKey for the session, the agent, the step and a store's prefix, so
// that a path that was accepted once can be projected anywhere.
const MaxPath = 512

// MaxStorePrefix is what MaxPath leaves to a store that puts a prefix of its
// own before every key.
const MaxStorePrefix = 256

// EscapePath turns a workspace path (slash-separated, relative, clean) into the
// part of a key that stands for it: every byte outside [A-Za-z0-9._-] and "/"
// becomes "=" and two upper-case hexadecimal digits. The error is a *NameError.
func EscapePath(name string) (string, error) {
	if err := checkPath(name); err != nil {
		return "", err
	}
	var b strings.Builder
	for segment := range strings.SplitSeq(name, "/") {
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		n := b.Len()
		escapeSegment(&b, segment)
		if n = b.Len() - n; n > MaxSegment {
			return "", &NameError{What: "path", Name: name, Problem: fmt.Sprintf(
				"%q needs %d bytes as a key, at most %d are allowed: use a shorter name, or plain letters and digits", segment, n, MaxSegment)}
		}
	}
	if b.Len() > MaxPath {
		return "", &NameError{What: "path", Name: name, Problem: fmt.Sprintf(
			"it needs %d bytes as a key, at most %d are allowed: use shorter names or fewer directories", b.Len(), MaxPath)}
	}
	return b.String(), nil
}

// UnescapePath is the inverse of EscapePath; it works on whole keys too. What
// EscapePath cannot have written is an error.
func UnescapePath(escaped string) (string, error) {
	if problem := segmentsProblem(escaped); problem != "" {
		return "", &NameError{What: "escaped path", Name: escaped, Problem: problem}
	}
	return unescapeKey(escaped), nil
}

// checkPath refuses what cannot be a path inside a workspace.
func checkPath(name string) error {
	problem := ""
	switch {
	case name == "" || name == ".":
		problem = "it names no file"
	case strings.IndexByte(name, 0) >= 0:
		problem = "it has a NUL byte"
	case path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../"):
		problem = "use a relative path inside the workspace, without empty, \".\" or \"..\" parts"
	}
	if problem != "" {
		return &NameError{What: "path", Name: name, Problem: problem}
	}
	return nil
}

const hexDigits = "0123456789ABCDEF"

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

func escapeSegment(b *strings.Builder, segment string) {
	for i := range len(segment) {
		if c := segment[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'=', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
}

// unescape decodes the escape at the start of s. Only what escapeSegment writes
// is one, so that no two keys have the same meaning.
func unescape(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '=' {
		return 0, false
	}
	hi, lo := strings.IndexByte(hexDigits, s[1]), strings.IndexByte(hexDigits, s[2])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	c := byte(hi<<4 | lo)
	return c, c != 0 && c != '/' && !plain(c)
}

// unescapeKey decodes a key that CheckKey accepts.
func unescapeKey(key string) string {
	if !strings.Contains(key, "=") {
		return key
	}
	out := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		if c, ok := unescape(key[i:]); ok {
			out = append(out, c)
			i += 2
		} else {
			out = append(out, key[i])
		}
	}
	return string(out)
}
