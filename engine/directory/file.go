package directory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"conclave/engine/text"
)

// The most that is read.
const (
	maxDocument = 4 << 20 // bytes of one file; an answer has at most team.MaxAnswer
	maxEntries  = 100_000 // names in one directory
)

// fileError says why a name is not the file that it should be.
type fileError struct{ problem string }

func (e *fileError) Error() string { return e.problem }

// readFile reads a regular file. It is nil without an error if there is none,
// and the error is a *fileError if there is something else.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := open(root, name, fs.FileMode.IsRegular, "a file")
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, &fileError{problem: "cannot be read: " + cause(err)}
	}
	if len(data) > maxDocument {
		return nil, &fileError{problem: fmt.Sprintf("has more than %d bytes, the most that is read", maxDocument)}
	}
	return data, nil
}

// list returns the entries of a directory by name, nil if there is none. The
// error is a *fileError if there is something else.
func list(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := open(root, name, fs.FileMode.IsDir, "a directory")
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, &fileError{problem: "cannot be read: " + cause(err)}
	case len(entries) > maxEntries:
		return nil, &fileError{problem: fmt.Sprintf("has more than %d entries, the most that are read", maxEntries)}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// open opens what lies under a name, if it is what is wanted: it neither follows
// a link nor waits for a writer, also if the name is exchanged meanwhile.
func open(root *os.Root, name string, wanted func(fs.FileMode) bool, what string) (*os.File, error) {
	before, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, &fileError{problem: "cannot be read: " + cause(err)}
	case !wanted(before.Mode()):
		return nil, &fileError{problem: "is " + kind(before.Mode()) + ", not " + what}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fileError{problem: "cannot be read: " + cause(err)}
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		f.Close()
		return nil, &fileError{problem: "was exchanged while it was read"}
	}
	return f, nil
}

// kind names what something is, with its article.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// cause is an error without the path, which a warning names already.
func cause(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// maxNesting bounds how deep a document may be nested. Other programs may add
// fields, but no document of a session is deep.
const maxNesting = 100

// document is the object of a file, by its exact keys. encoding/json alone would
// take "Answer" for "answer", and of two answers the last.
type document map[string]json.RawMessage

// decode reads the one JSON object that data must be: UTF-8, no key twice.
func decode(data []byte) (document, error) {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("is empty")
	case !utf8.Valid(data):
		return nil, errors.New("is not valid UTF-8")
	}
	if err := check(data); err != nil {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	if d == nil {
		return nil, errors.New("is not a JSON object: it is null")
	}
	return d, nil
}

// check reads data through once, for keys that are there twice and for nesting.
func check(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var open []*level
	for {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF) && len(open) == 0:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("is not valid JSON: it ends too early")
		case err != nil:
			return fmt.Errorf("is not valid JSON: %w", err)
		}
		if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			if key, twice := open[len(open)-1].take(token); twice {
				return fmt.Errorf("has the key %q twice", truncate(key))
			}
		}
		if _, ok := token.(json.Delim); ok {
			if len(open) == maxNesting {
				return fmt.Errorf("is nested more than %d deep", maxNesting)
			}
			open = append(open, &level{object: token == json.Delim('{')})
		}
	}
}

// level is an object or array that is being read.
type level struct {
	object bool
	value  bool // the next token is a value, not a key
	keys   map[string]bool
}

// take notes a token, and reports a key that was there before.
func (l *level) take(token json.Token) (key string, twice bool) {
	if !l.object {
		return "", false
	}
	if l.value {
		l.value = false
		return "", false
	}
	l.value = true
	key, _ = token.(string)
	if l.keys == nil {
		l.keys = map[string]bool{}
	}
	twice = l.keys[key]
	l.keys[key] = true
	return key, twice
}

// text is the string under a key; an error says that there is none.
func (d document) text(key string) (string, error) {
	raw, ok := d[key]
	if !ok {
		return "", fmt.Errorf("has no %q", key)
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fmt.Errorf("has %s under %q, not a string", typeOf(raw), key)
	}
	return *s, nil
}

// optional is the string under a key, empty without one or with null.
func (d document) optional(key string) (string, error) {
	if raw, ok := d[key]; !ok || string(raw) == "null" {
		return "", nil
	}
	return d.text(key)
}

// typeOf names the type of a JSON value, with its article.
func typeOf(raw json.RawMessage) string {
	switch trimmed := strings.TrimSpace(string(raw)); {
	case trimmed == "" || trimmed == "null":
		return "null"
	case trimmed[0] == '{':
		return "an object"
	case trimmed[0] == '[':
		return "an array"
	case trimmed[0] == '"':
		return "a string"
	case trimmed == "true" || trimmed == "false":
		return "a boolean"
	}
	return "a number"
}

// truncate shortens a foreign value for a warning.
func truncate(s string) string { return text.Truncate(s, 80) }
