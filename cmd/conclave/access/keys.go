package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

// Keys are the callers listed in a file, which is read again for every lookup, because a rotation
// may keep its size and its time. A changed file admits the keys of its valid lines only: a key whose line was removed is refused at once, and a
// mistake in one line locks out no other caller. A file that cannot be read admits nobody.
type Keys struct {
	// Faulty receives a fault of the changed file when a request finds it, once; nil ignores it.
	Faulty func(error)

	file string

	mu      sync.Mutex
	content string            // what was read last; empty after a failure
	fault   string            // fault that was returned last; empty without one
	callers map[string]Caller // callers by the hash of the key, in hex
}

// maxKeysFile is the maximum size of a file of keys, in bytes.
const maxKeysFile = 1 << 20

// LoadKeys reads a file of keys. It refuses a file with a fault, and one without a key.
func LoadKeys(file string) (*Keys, error) {
	k := &Keys{file: file}
	if err := k.refresh(); err != nil {
		return nil, err
	}
	return k, nil
}

// Callers returns the callers, sorted by name.
func (k *Keys) Callers() []Caller {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.callers), func(a, b Caller) int { return strings.Compare(a.Name, b.Name) })
}

// Find returns the caller with a key.
func (k *Keys) Find(key string) (Caller, bool) {
	if err := k.refresh(); err != nil && k.Faulty != nil {
		k.Faulty(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.callers[hash(key)]
	return c, ok
}

// hash returns the hash that the file stores for a key. The time of a lookup reveals nothing
// about the key.
func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// refresh reads the file, and parses it if it has changed. It returns a fault once.
func (k *Keys) refresh() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	content, err := k.read()
	switch {
	case err != nil:
		k.callers = nil
	case content == k.content && k.callers != nil:
		return nil
	default:
		k.callers, err = parse(k.file, content)
	}
	previous := k.fault
	k.content, k.fault = content, ""
	if err != nil {
		k.fault = err.Error()
	}
	if k.fault == previous {
		return nil
	}
	return err
}

// read returns the content of the file.
func (k *Keys) read() (string, error) {
	remedy := fmt.Sprintf("name a file that this user can read; `conclave serve key NAME >> %s` makes one", k.file)
	info, err := os.Stat(k.file)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the keys: %w; %s", err, remedy)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("read the keys: %s is not a regular file; %s", k.file, remedy)
	case info.Size() > maxKeysFile:
		return "", fmt.Errorf("read the keys: %s has %d bytes, at most %d are read", k.file, info.Size(), maxKeysFile)
	}
	content, err := os.ReadFile(k.file)
	if err != nil {
		return "", fmt.Errorf("read the keys: %w; %s", err, remedy)
	}
	return string(content), nil
}
