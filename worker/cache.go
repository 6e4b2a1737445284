package worker

import (
	"os"
	"path/filepath"

	"conclave/engine/artifact"
)

// cacheBytes is how much content is kept on this machine.
const cacheBytes = 2 << 30

// DefaultCache is the place of the content cache of a worker that is told no
// other: in the user's cache. Without a home there is none: the temporary
// directory is for the workspaces.
func DefaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "conclave", "content")
}

// cacheContent puts the content cache before the store. Without one, as on a
// read-only disk, everything is fetched each time, and nothing is worse.
func (c *Config) cacheContent() {
	if c.Cache == "" || c.NoSteps {
		return
	}
	if cached, err := artifact.NewCache(c.Store, c.Cache, cacheBytes); err == nil {
		c.Store = cached
	}
}
