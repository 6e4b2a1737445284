package artifact

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// The lengths of names, in bytes.
const (
	MaxKey       = 1000 // a whole key, a store's own prefix included
	MaxSegment   = 255  // a key's part between slashes
	MaxSessionID = 128
)

// NameError says why a key, a path or an ID cannot be used, and what can.
type NameError struct {
	What    string // key, path, session id, …
	Name    string
	Problem string // with the remedy
}

func (e *NameError) Error() string { return fmt.Sprintf("%s %q: %s", e.What, e.Name, e.Problem) }

// CheckKey reports whether a key is one that every store accepts and keeps
// apart from all others: bytes of [A-Za-z0-9._-] and escapes as EscapePath
// writes them, in segments separated by "/". No segment is empty, "." or "..",
// or longer than MaxSegment; the first does not start with a dot; the key is
// not longer than MaxKey. The error is a *NameError.
func CheckKey(key string) error {
	problem := ""
	switch {
	case key == "":
		problem = "it is empty"
	case len(key) > MaxKey:
		problem = fmt.Sprintf("it has %d bytes: at most %d are allowed", len(key), MaxKey)
	case key[0] == '.':
		problem = "its first segment starts with a dot: such names are reserved for the store"
	default:
		problem = segmentsProblem(key)
	}
	if problem != "" {
		return &NameError{What: "key", Name: key, Problem: problem}
	}
	return nil
}

// CheckPrefix is CheckKey for the argument of List: empty, or a key with "/" after it.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	key, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return &NameError{What: "prefix", Name: prefix, Problem: `it does not end in "/"`}
	}
	return CheckKey(key)
}

func segmentsProblem(key string) string {
	for segment := range strings.SplitSeq(key, "/") {
		if problem := segmentProblem(segment); problem != "" {
			return problem
		}
	}
	return ""
}

func segmentProblem(segment string) string {
	switch {
	case segment == "":
		return `it has an empty segment: use single slashes, none first or last`
	case segment == "." || segment == "..":
		return fmt.Sprintf("it has a segment %q: use the plain name", segment)
	case len(segment) > MaxSegment:
		return fmt.Sprintf("it has a segment of %d bytes: at most %d are allowed", len(segment), MaxSegment)
	}
	for i := 0; i < len(segment); i++ {
		switch c := segment[i]; {
		case plain(c):
		case c == '=':
			if _, ok := unescape(segment[i:]); !ok {
				return `it has a "=" that begins no escape: use EscapePath`
			}
			i += 2
		default:
			return fmt.Sprintf("it has the byte %q: letters, digits and ._-=/ are allowed; escape others with EscapePath", c)
		}
	}
	return ""
}

// CheckSessionID reports whether an ID can be a session's: a single segment of
// a key, in bytes of [A-Za-z0-9._-], at most MaxSessionID long. The error is a
// *NameError.
func CheckSessionID(id string) error {
	problem := ""
	switch {
	case id == "":
		problem = "it is empty: give the session an id"
	case len(id) > MaxSessionID:
		problem = fmt.Sprintf("it has %d bytes: give session_id one of at most %d", len(id), MaxSessionID)
	case id == "." || id == "..":
		problem = "it would name a directory: give session_id another"
	}
	for i := 0; i < len(id) && problem == ""; i++ {
		if !plain(id[i]) {
			problem = fmt.Sprintf("it has the byte %q: give session_id one of letters, digits, '.', '_' and '-'", id[i])
		}
	}
	if problem != "" {
		return &NameError{What: "session id", Name: id, Problem: problem}
	}
	return nil
}

var agentID = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// CheckAgentID reports whether an ID can be an agent's: [a-z][a-z0-9_-]{0,31}.
// The error is a *NameError.
func CheckAgentID(id string) error {
	if agentID.MatchString(id) {
		return nil
	}
	return &NameError{
		What: "agent id", Name: id,
		Problem: "use a lower-case letter and then up to 31 lower-case letters, digits, '_' or '-', such as agent_a",
	}
}

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
