package artifact

import (
	"fmt"
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
