package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// The walk that measures begins again this long after the last one, or after ten times what that
// took, so that a large workspace does not keep a processor busy.
const diskInterval = time.Second

// depthLimit is how deep directories may lie in each other; deeper ones count as too many files.
const depthLimit = 256

// minFree is what commands leave of a file system, in bytes, or half of what was free at their
// start if that is less. It also bounds what a walk cannot see: deleted files that are still open.
const minFree = 512 << 20

// usage is what lies in a directory.
type usage struct {
	bytes int64 // of each file its length or the place it takes, whichever is more
	files int   // files and directories, without the first
}

var errTooMany = errors.New("more files than are allowed")

// quota watches the disk for one command.
type quota struct {
	s     *Sandbox
	floor int64
	done  chan struct{}
	over  chan struct{}
}

// watchDisk measures again and again until it is stopped, and kills when a limit is reached.
func (s *Sandbox) watchDisk(v *verdict) *quota {
	q := &quota{s: s, done: make(chan struct{}), over: make(chan struct{})}
	if free, err := freeSpace(s.temp); err == nil {
		q.floor = min(minFree, free/2)
	}
	go func() {
		defer close(q.over)
		wait := diskInterval
		for {
			select {
			case <-q.done:
				return
			case <-time.After(wait):
			}
			began := time.Now()
			reason, err := q.measure(false)
			if reason != "" || err != nil {
				v.end(reason, err)
				return
			}
			wait = max(diskInterval, 10*time.Since(began))
		}
	}()
	return q
}

func (q *quota) stop() {
	close(q.done)
	<-q.over
}

// check measures once more when nothing can write any more, and makes everything readable for the
// worker again.
func (q *quota) check() (Reason, error) { return q.measure(true) }

func (q *quota) measure(final bool) (Reason, error) {
	limits := q.s.options.Limits
	var sum usage
	for _, dir := range []string{q.s.options.Workspace, q.s.temp} {
		left := func(n int) error {
			if limits.Files > 0 && sum.files+n > limits.Files {
				return errTooMany
			}
			return nil
		}
		if final {
			left = nil
		}
		u, err := measure(dir, left, final)
		sum.bytes += u.bytes
		sum.files += u.files
		if errors.Is(err, errTooMany) {
			return EndedFiles, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("measure %s: %w", dir, err)
		}
	}
	switch {
	case limits.Files > 0 && sum.files > limits.Files:
		return EndedFiles, nil
	case limits.Disk > 0 && sum.bytes > limits.Disk:
		return EndedDisk, nil
	}
	if free, err := freeSpace(q.s.temp); err == nil && free < q.floor && !final {
		return EndedDisk, nil
	}
	return "", nil
}
