package artifact

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The limits of names, in bytes.
const (
	MaxKey       = 1000 // a whole key, including a store's prefix
	MaxSessionID = 128
	maxSegment   = 255 // the part of a key between slashes

	// maxPath limits an escaped workspace path. It leaves room in MaxKey for the session, the
	// agent, the step and a store's prefix, so every accepted path can be projected.
	maxPath = 512
	// MaxStorePrefix limits the prefix that a store puts before every key.
	MaxStorePrefix = 256
)

// EvaluationKey is the key of the hash of a part of an evaluation, such as its data.
func EvaluationKey(id, part string) string { return "evals/" + id + "/" + part + ".json" }

// NameError reports a key, path or ID that cannot be used.
type NameError struct {
	What    string // key, path, session id, …
	Name    string
	Problem string // problem with its remedy
}

func (e *NameError) Error() string { return fmt.Sprintf("%s %q: %s", e.What, e.Name, e.Problem) }

// nameError returns a *NameError, nil if problem is empty.
func nameError(kind, name, problem string) error {
	if problem == "" {
		return nil
	}
	return &NameError{What: kind, Name: name, Problem: problem}
}

// CheckKey refuses a key that some store would reject or confuse with another. A key consists
// of segments of [A-Za-z0-9._-] and the escapes of EscapePath, separated by "/". No segment
// is empty, "." or "..", or longer than 255 bytes; the first does not start with a dot; the
// key is not longer than MaxKey. The error is a *NameError.
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
		for segment := range strings.SplitSeq(key, "/") {
			if problem = segmentProblem(segment); problem != "" {
				break
			}
		}
	}
	return nameError("key", key, problem)
}

// CheckPrefix checks the argument of List: it must be empty, or a key with a final "/".
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	key, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return nameError("prefix", prefix, `it does not end in "/"`)
	}
	return CheckKey(key)
}

func segmentProblem(segment string) string {
	switch {
	case segment == "":
		return `it has an empty segment: use single slashes, none first or last`
	case segment == "." || segment == "..":
		return fmt.Sprintf("it has a segment %q: use the plain name", segment)
	case len(segment) > maxSegment:
		return fmt.Sprintf("it has a segment of %d bytes: at most %d are allowed", len(segment), maxSegment)
	}
	for i := 0; i < len(segment); i++ {
		switch c := segment[i]; {
		case isPortable(c):
		case c == '=':
			if _, ok := decodeEscape(segment[i:]); !ok {
				return `it has a "=" that begins no escape: use EscapePath`
			}
			i += 2
		default:
			return fmt.Sprintf("it has the byte %q: letters, digits and ._-=/ are allowed; escape others with EscapePath", c)
		}
	}
	return ""
}

// CheckSessionID refuses an invalid session ID: one to MaxSessionID bytes of
// [A-Za-z0-9._-], but not "." or "..". The error is a *NameError.
func CheckSessionID(id string) error {
	problem := ""
	switch {
	case id == "":
		problem = "it is empty; give the session an ID"
	case len(id) > MaxSessionID:
		problem = fmt.Sprintf("it has %d bytes; at most %d are allowed", len(id), MaxSessionID)
	case id == "." || id == "..":
		problem = "it would name a directory; choose another"
	}
	for _, c := range id {
		if problem == "" && (c >= utf8.RuneSelf || !isPortable(byte(c))) {
			problem = fmt.Sprintf("it has the character %q; ASCII letters, digits, '.', '_' and '-' are allowed", c)
		}
	}
	return nameError("session id", id, problem)
}

// SessionIDOf returns the ID of a session or run whose workflow names none: that of the workflow, in which
// every byte that no session ID has is a "-".
func SessionIDOf(workflow string) string {
	id := []byte(workflow)
	for i, c := range id {
		if !isPortable(c) {
			id[i] = '-'
		}
	}
	return string(id)
}

var agentID = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// CheckAgentID refuses an invalid agent ID: [a-z][a-z0-9_-]{0,31}. The error is a *NameError.
func CheckAgentID(id string) error {
	if agentID.MatchString(id) {
		return nil
	}
	return nameError("agent id", id,
		"use a lower-case letter and then up to 31 lower-case letters, digits, '_' or '-', such as agent_a")
}

// EscapePath turns a workspace path (slash-separated, relative, clean) into part of a key. Every byte outside
// [A-Za-z0-9._-] and "/" becomes "=" and two upper-case hexadecimal digits. The error is a *NameError.
func EscapePath(name string) (string, error) {
	if problem := pathProblem(name); problem != "" {
		return "", nameError("path", name, problem)
	}
	var b strings.Builder
	for segment := range strings.SplitSeq(name, "/") {
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		n := b.Len()
		escapeSegment(&b, segment)
		if n = b.Len() - n; n > maxSegment {
			return "", nameError("path", name, fmt.Sprintf(
				"%q needs %d bytes as a key, at most %d are allowed: use a shorter name, or plain letters and digits", segment, n, maxSegment))
		}
	}
	if b.Len() > maxPath {
		return "", nameError("path", name, fmt.Sprintf(
			"it needs %d bytes as a key, at most %d are allowed: use shorter names or fewer directories", b.Len(), maxPath))
	}
	return b.String(), nil
}

// pathProblem returns the reason why name is not a path inside a workspace, or "".
func pathProblem(name string) string {
	switch {
	case name == "" || name == ".":
		return "it names no file"
	case strings.IndexByte(name, 0) >= 0:
		return "it has a NUL byte"
	case path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../"):
		return "use a relative path inside the workspace, without empty, \".\" or \"..\" parts"
	}
	return ""
}

const hexDigits = "0123456789ABCDEF"

// isPortable reports whether keys hold a byte unescaped.
func isPortable(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

func escapeSegment(b *strings.Builder, segment string) {
	for i := range len(segment) {
		if c := segment[i]; isPortable(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'=', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
}

// decodeEscape decodes the escape at the start of s. It accepts only the escapes that
// escapeSegment writes, so that no two keys have the same meaning.
func decodeEscape(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '=' {
		return 0, false
	}
	hi, lo := strings.IndexByte(hexDigits, s[1]), strings.IndexByte(hexDigits, s[2])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	c := byte(hi<<4 | lo)
	return c, c != 0 && c != '/' && !isPortable(c)
}

func unescapeKey(key string) string {
	if !strings.Contains(key, "=") {
		return key
	}
	out := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		if c, ok := decodeEscape(key[i:]); ok {
			out = append(out, c)
			i += 2
		} else {
			out = append(out, key[i])
		}
	}
	return string(out)
}

// Material names the files that a session or a run starts from by references, sha256:<hex>,
// to stored directories.
type Material struct {
	Base    string    `json:"base,omitempty"`    // the workspace of every step; in an input also source:NAME
	Context []Context `json:"context,omitempty"` // directories shown read-only
	Images  []Picture `json:"images,omitempty"`  // shown with the question, in this order
}

// Source returns the name of the base if it is a source of the workers, source:NAME. Its files are read
// when the run starts, and the base is then their reference.
func (m Material) Source() (name string, ok bool) { return strings.CutPrefix(m.Base, "source:") }

// Picture is a file of a stored directory that is shown with the question of a session.
type Picture struct {
	Manifest string `json:"manifest"`
	Path     string `json:"path"`
}

// Limits of the pictures of a question.
const (
	MaxPictures     = 20
	MaxPictureBytes = 32 << 20 // of all together
)

// Context is a directory that agents may only read, at context/<name>/.
type Context struct {
	Name     string `json:"name"`
	Manifest string `json:"manifest"`
}

// CheckContextName refuses a name that cannot be both a directory's name and part of a key.
// The error is a *NameError.
func CheckContextName(name string) error {
	if err := CheckKey(name); err != nil || len(name) > 64 || name != unescapeKey(name) {
		return nameError("context name", name, "use up to 64 letters, digits, '.', '_' and '-', and no dot at the start")
	}
	for i := range len(name) {
		if name[i] == '/' {
			return nameError("context name", name, "use a name without \"/\"")
		}
	}
	return nil
}

// Given reports whether there is a base, a context or a picture.
func (m Material) Given() bool { return m.Base != "" || len(m.Context) > 0 || len(m.Images) > 0 }
