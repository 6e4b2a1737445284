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

// The limits of reading.
const (
	maxDocument = 4 << 20 // bytes of a file; an answer has at most team.MaxAnswer
	maxEntries  = 100_000 // names in a directory
)

// readFile reads a regular file. It returns nil if the name does not exist.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := open(root, name, fs.FileMode.IsRegular, "a file")
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, errors.New("cannot be read: " + cause(err))
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("has more than %d bytes, the most that is read", maxDocument)
	}
	return data, nil
}

// list returns the entries of a directory by name, or nil if it does not exist.
func list(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := open(root, name, fs.FileMode.IsDir, "a directory")
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, errors.New("cannot be read: " + cause(err))
	case len(entries) > maxEntries:
		return nil, fmt.Errorf("has more than %d entries, the most that are read", maxEntries)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// open opens a file of the wanted kind. It returns nil if the name does not exist. It neither
// follows a link nor blocks on a FIFO, even if the name is replaced concurrently.
func open(root *os.Root, name string, wanted func(fs.FileMode) bool, wantedKind string) (*os.File, error) {
	before, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, errors.New("cannot be read: " + cause(err))
	case !wanted(before.Mode()):
		return nil, fmt.Errorf("is %s, not %s", kind(before.Mode()), wantedKind)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New("cannot be read: " + cause(err))
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		f.Close()
		return nil, errors.New("was replaced while it was read")
	}
	return f, nil
}

// kind returns the name of a kind of file, with its article.
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

// cause removes the path from an error, because the warning repeats it.
func cause(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// maxNesting limits the nesting of a document, including the fields of other
// programs.
const maxNesting = 100

// document is a JSON object with its exact keys. Decoding into a struct would accept "Answer"
// for "answer", and the last of two answers.
type document map[string]json.RawMessage

// decode decodes a single JSON object in UTF-8 without duplicate keys.
func decode(data []byte) (document, error) {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("is empty")
	case !utf8.Valid(data):
		return nil, errors.New("is not valid UTF-8")
	}
	if err := checkSyntax(data); err != nil {
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

// readDocument reads and decodes a file. It returns nil if the file does not exist.
func readDocument(root *os.Root, name string) (document, error) {
	data, err := readFile(root, name)
	if data == nil || err != nil {
		return nil, err
	}
	return decode(data)
}

// readInto is readDocument into a struct. It reports whether the file exists.
func readInto(root *os.Root, name string, doc any) (bool, error) {
	data, err := readFile(root, name)
	if data == nil || err != nil {
		return false, err
	}
	if _, err := decode(data); err != nil {
		return true, err
	}
	if err := json.Unmarshal(data, doc); err != nil {
		return true, fmt.Errorf("is malformed: %w", err)
	}
	return true, nil
}

// checkSyntax refuses duplicate keys and deep nesting.
func checkSyntax(data []byte) error {
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
			if key, twice := open[len(open)-1].add(token); twice {
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

// level is an object or array that checkSyntax has entered.
type level struct {
	object bool
	value  bool // the next token is a value, not a key
	keys   map[string]bool
}

// add records a token and reports a duplicate key.
func (l *level) add(token json.Token) (key string, twice bool) {
	if !l.object || l.value {
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

// text returns the string under a key, or an error if the value is not a string.
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

// optional returns the string under a key, or "" if it is missing or null.
func (d document) optional(key string) (string, error) {
	if raw, ok := d[key]; !ok || string(raw) == "null" {
		return "", nil
	}
	return d.text(key)
}

// typeOf returns the name of a JSON value's type, with its article.
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
