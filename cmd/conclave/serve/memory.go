package serve

import (
	"os"
	"runtime/debug"
)

// waitSmall reduces memory use at the cost of processor time, because a server without a
// worker mostly waits for hundreds of callers. Setting GOGC overrides the garbage
// collection percentage.
func waitSmall() {
	const percent = 50
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
