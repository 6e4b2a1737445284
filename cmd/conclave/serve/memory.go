package serve

import (
	"os"
	"runtime/debug"
)

// waitSmall trades processor time for memory: a server without a worker mostly waits, for
// hundreds of callers. GOGC overrules its garbage collection.
func waitSmall() {
	const percent = 50
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	dropProgram()
}
