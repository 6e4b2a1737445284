package drive

import "time"

// Bounds of an ending.
const (
	// StepsGrace is how long an ending waits for cancelled steps to report their usage.
	// A lost worker reports nothing.
	StepsGrace = 10 * time.Second

	// StoreGrace is how long a cancelled workflow tries to write its last records.
	StoreGrace = 2 * time.Minute
)
