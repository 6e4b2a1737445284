package directory

import (
	"bytes"
	"cmp"
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

	"conclave/engine/files/artifact"
	"conclave/engine/session"
	"conclave/engine/text"
)

// The limits of reading.
const (
	maxDocument = 4 << 20 // bytes of a file; an answer has at most team.MaxAnswer
	maxEntries  = 100_000 // names in a directory
)

// readFile reads a regular file. It returns nil if the name does not exist.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := openFile(root, name, fs.FileMode.IsRegular, "a file")
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, errors.New("cannot be read: " + causeText(err))
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("has more than %d bytes, the most that is read", maxDocument)
	}
	return data, nil
}

// listEntries returns the entries of a directory by name, or nil if it does not exist.
func listEntries(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := openFile(root, name, fs.FileMode.IsDir, "a directory")
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, errors.New("cannot be read: " + causeText(err))
	case len(entries) > maxEntries:
		return nil, fmt.Errorf("has more than %d entries, the most that are read", maxEntries)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// openFile opens a file of the wanted kind. It returns nil if the name does not exist. It neither
// follows a link nor blocks on a FIFO, even if the name is replaced concurrently.
func openFile(root *os.Root, name string, wanted func(fs.FileMode) bool, wantedKind string) (*os.File, error) {
	before, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, errors.New("cannot be read: " + causeText(err))
	case !wanted(before.Mode()):
		return nil, fmt.Errorf("is %s, not %s", kindName(before.Mode()), wantedKind)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New("cannot be read: " + causeText(err))
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		f.Close()
		return nil, errors.New("was replaced while it was read")
	}
	return f, nil
}

func kindName(mode fs.FileMode) string {
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

// causeText removes the path from an error, because the warning repeats it.
func causeText(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// maxNesting limits the nesting of a document, including the fields of other programs.
const maxNesting = 100

// document is a JSON object with its exact keys. Decoding into a struct would accept "Answer"
// for "answer", and the last of two answers.
type document map[string]json.RawMessage

// decodeObject decodes a single JSON object in UTF-8 without duplicate keys.
func decodeObject(data []byte) (document, error) {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("is empty")
	case !utf8.Valid(data):
		return nil, errors.New("is not valid UTF-8")
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	tokens.UseNumber()
	if err := checkValue(tokens, 0); err != nil {
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
	return decodeObject(data)
}

// readInto is readDocument into a struct. It reports whether the file exists.
func readInto(root *os.Root, name string, doc any) (bool, error) {
	data, err := readFile(root, name)
	if data == nil || err != nil {
		return false, err
	}
	if _, err := decodeObject(data); err != nil {
		return true, err
	}
	if err := json.Unmarshal(data, doc); err != nil {
		return true, fmt.Errorf("is malformed: %w", err)
	}
	return true, nil
}

// checkValue reads one value, nested in depth others. It refuses duplicate keys and deep nesting.
func checkValue(tokens *json.Decoder, depth int) error {
	token, err := nextToken(tokens)
	open, nests := token.(json.Delim)
	switch {
	case err != nil || !nests:
		return err
	case depth == maxNesting:
		return fmt.Errorf("is nested more than %d deep", maxNesting)
	}
	keys := map[json.Token]bool{}
	for tokens.More() {
		if open == '{' {
			key, err := nextToken(tokens)
			if err != nil {
				return err
			}
			if keys[key] {
				return fmt.Errorf("has the key %q twice", truncateForeign(fmt.Sprint(key)))
			}
			keys[key] = true
		}
		if err := checkValue(tokens, depth+1); err != nil {
			return err
		}
	}
	_, err = nextToken(tokens)
	return err
}

func nextToken(tokens *json.Decoder) (json.Token, error) {
	token, err := tokens.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("is not valid JSON: it ends too early")
	case err != nil:
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	return token, nil
}

// textUnder returns the string under a key, or an error if the value is not a string.
func (d document) textUnder(key string) (string, error) {
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

// optionalText returns the string under a key, or "" if it is missing or null.
func (d document) optionalText(key string) (string, error) {
	if raw, ok := d[key]; !ok || string(raw) == "null" {
		return "", nil
	}
	return d.textUnder(key)
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

func truncateForeign(s string) string { return text.Truncate(s, 80) }

// UnusableError reports that no step can begin because a directory cannot be read or cannot store one.
type UnusableError struct {
	Err    error
	Remedy string // empty for a directory that cannot be written
}

func (e *UnusableError) Error() string {
	const writable = "the session directory has to be writable, on a file system with locks and hard links; nothing was started"
	return e.Err.Error() + ": " + cmp.Or(e.Remedy, writable)
}

func (e *UnusableError) Unwrap() error { return e.Err }

func unreadableError(path, problem string) error {
	return &UnusableError{
		Err:    errors.New(path + " " + problem),
		Remedy: "make it a directory that can be read, or name another session directory",
	}
}

// directories lists the directories that a step creates if they are missing.
var directories = []string{locksDir, artifact.TempDir, "agents", "blobs", "blobs/sha256", "journal"}

// Usable refuses a directory in which other files have the names of the directories and documents of runner's
// next step, which would fail after its model calls. The error is an *UnusableError.
func Usable(root *os.Root, runner string) error {
	for _, name := range append(directories[:len(directories):len(directories)], "agents/"+runner) {
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return unreadableError(name, "cannot be read: "+causeText(err))
		case !info.IsDir():
			return unreadableError(name, "is "+kindName(info.Mode())+", not a directory")
		}
	}
	last := "agents/" + runner + "/last_action.json"
	if info, err := root.Lstat(last); err == nil && info.IsDir() {
		return &UnusableError{Err: errors.New(last + " is a directory"), Remedy: "remove it, or name another session directory"}
	}
	return nil
}

// Reserve finds an ID for an agent that has none: the first free one of agent_a to agent_z.
// It creates the agent's directory, so concurrent calls return different IDs.
func Reserve(root *os.Root) (string, error) {
	if err := root.Mkdir("agents", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", &UnusableError{Err: fmt.Errorf("make the directory of agents: %w", err)}
	}
	for letter := 'a'; letter <= 'z'; letter++ {
		id := "agent_" + string(letter)
		err := root.Mkdir("agents/"+id, 0o755)
		switch {
		case err == nil:
			return id, nil
		case !errors.Is(err, fs.ErrExist):
			return "", &UnusableError{Err: fmt.Errorf("make the directory of %s: %w", id, err)}
		}
	}
	return "", errors.New("agent_a to agent_z are all taken: give the agent an id of its own")
}

// Turns returns the earlier turns in history.json, or nil if it is missing.
func Turns(root *os.Root) ([]artifact.Turn, error) {
	data, err := readFile(root, session.HistoryFile)
	if data == nil && err == nil {
		return nil, nil
	}
	var turns []artifact.Turn
	if err == nil {
		if err = json.Unmarshal(data, &turns); err != nil {
			err = fmt.Errorf("is not a list of objects with query and answer: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %w", session.HistoryFile, err)
	}
	return turns, nil
}

// CriteriaFile holds the criteria by which the answers of a directory are evaluated.
const CriteriaFile = "eval_criteria.json"

// Criteria returns the content of the criteria file, or nil if it is missing.
func Criteria(root *os.Root) ([]byte, error) {
	data, err := readFile(root, CriteriaFile)
	if err != nil {
		return nil, fmt.Errorf("%s %w", CriteriaFile, err)
	}
	return data, nil
}
