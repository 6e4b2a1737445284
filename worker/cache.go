package worker

import (
	"os"
	"path/filepath"

	"conclave/engine/artifact"
)

// cacheBytes is the size of the content cache.
const cacheBytes = 2 << 30

// DefaultCache returns the content cache in the user's cache directory; empty without a home.
func DefaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "conclave", "content")
}

// treeBytes is the size of the unpacked bases that a worker keeps.
const treeBytes = 4 << 30

// treesDir returns the directory of unpacked bases, beside the content cache.
func (c Config) treesDir() string {
	if c.Cache == "" || c.NoSteps {
		return ""
	}
	return filepath.Join(filepath.Dir(c.Cache), "trees")
}

// cacheContent puts the content cache before the store, unless it cannot be opened.
func (c *Config) cacheContent() {
	if c.Cache == "" || c.NoSteps {
		return
	}
	if cached, err := artifact.NewCache(c.Store, c.Cache, cacheBytes); err == nil {
		c.Store = cached
	}
}
