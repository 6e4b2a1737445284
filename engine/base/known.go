package base

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"

	"conclave/engine/artifact"
)

// known remembers the hashes of a directory's files between uploads.
type known struct {
	Format int              `json:"format"`
	Store  string           `json:"store"` // store to which Base was uploaded
	Base   string           `json:"base"`  // hash of the last upload
	Files  map[string]entry `json:"files"` // files by path; names that are not UTF-8 are not remembered

	mu sync.Mutex
}

// entry is a file as it was read.
type entry struct {
	artifact.Identity
	SHA256 string `json:"sha256"`
	Secret bool   `json:"secret,omitempty"`
}

// knownFormat changes with the format of the file and with the patterns that recognize
// secrets.
const knownFormat = 2

// readKnown reads the remembered hashes of a directory. It starts afresh if the file is
// missing or has another format.
func readKnown(file, store string) *known {
	k := &known{}
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, k) != nil || k.Format != knownFormat {
		k = &known{Format: knownFormat}
	}
	if k.Store != store {
		k.Store, k.Base = store, ""
	}
	if k.Files == nil {
		k.Files = map[string]entry{}
	}
	return k
}

func (k *known) lookup(path string, id artifact.Identity) (entry, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.Files[path]
	return e, ok && e.Identity == id
}

// add records a file that was read after began, unless it may change again without a new
// identity.
func (k *known) add(path string, id artifact.Identity, began time.Time, e entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.Files, path)
	if e.Identity = id; id.Settled(began.UnixNano()) {
		k.Files[path] = e
	}
}

// keep forgets files that were not found.
func (k *known) keep(found []artifact.Found) {
	files := make(map[string]entry, len(found))
	for _, f := range found {
		if e, ok := k.Files[f.Path]; ok {
			files[f.Path] = e
		}
	}
	k.Files = files
}

// save replaces the file.
func (k *known) save(file string) error {
	if file == "" {
		return nil
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), "known-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // gone after the rename
	_, err = temp.Write(data)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}
