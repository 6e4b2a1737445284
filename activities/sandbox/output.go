package sandbox

import (
	"errors"
	"io"
	"sync"
)

var errOutput = errors.New("more output than is delivered")

// output delivers what a command writes, up to a limit for both streams together.
type output struct {
	mu      sync.Mutex
	limited bool
	left    int64
	full    func() // called when the limit is reached
	failed  error  // of the caller's writer
}

// stream is one of the two; a nil writer is one that drops.
type stream struct {
	out *output
	to  io.Writer
}

// Write delivers what fits. It fails for good once something did not, so that reading stops.
func (s stream) Write(p []byte) (int, error) {
	o := s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	fits := p
	if o.limited && int64(len(p)) > o.left {
		fits = p[:o.left]
	}
	o.left -= int64(len(fits))
	if s.to != nil && len(fits) > 0 {
		if n, err := s.to.Write(fits); err != nil {
			o.failed = err
			o.full()
			return n, err
		}
	}
	if len(fits) < len(p) {
		o.full()
		return len(fits), errOutput
	}
	return len(p), nil
}

// failure is the error of the caller's writer, if it had one.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}
