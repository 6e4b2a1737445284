package worker

import (
	"os"
	"path/filepath"

	"conclave/engine/artifact"
)

// cacheBytes is the maximum size of the content cache.
const cacheBytes = 2 << 30

// DefaultCache returns the content cache in the user's cache directory, or "" if the user has none.
func DefaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "conclave", "content")
}

// treeBytes is the maximum size of the unpacked bases that a worker keeps.
const treeBytes = 4 << 30

// treesDir returns the directory for unpacked bases, which is beside the content cache.
func (c Config) treesDir() string {
	if c.Cache == "" || c.NoSteps {
		return ""
	}
	return filepath.Join(filepath.Dir(c.Cache), "trees")
}

// cacheContent puts the content cache in front of the store. If the cache cannot be opened, the
// store is used directly.
func (c *Config) cacheContent() {
	if c.Cache == "" || c.NoSteps {
		return
	}
	if cached, err := artifact.NewCache(c.Store, c.Cache, cacheBytes); err == nil {
		c.Store = cached
	}
}
