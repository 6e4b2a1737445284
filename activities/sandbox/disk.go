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

// pollInterval is how often the free space is looked at. When a good part of what the limit leaves
// has gone since the last walk, the next one begins at once.
const pollInterval = 25 * time.Millisecond

// How much has to go before a walk begins early: others write, too.
const (
	leastBytes = 1 << 20
	leastFiles = 500
)

// depthLimit is how deep directories may lie in each other; deeper ones count as too many files.
const depthLimit = 256

// minFree is what commands leave of a file system, in bytes, or half of what was free at their
// start if that is less.
const minFree = 512 << 20

// usage is what lies in a directory, or what a file system has left.
type usage struct {
	bytes int64 // of each file its length or the place it takes, whichever is more
	files int   // files and directories, without the first
}

// much says whether a loss is a good part of what a limit had left.
func (u usage) much(left usage, limits Limits) bool {
	return limits.Disk > 0 && u.bytes >= max(leastBytes, left.bytes/4) ||
		limits.Files > 0 && u.files >= max(leastFiles, left.files/4)
}

var errTooMany = errors.New("more files than are allowed")

// quota watches the disk for one command.
type quota struct {
	s       *Sandbox
	volumes []*volume
	before  usage         // as last measured, when the command before had ended
	left    usage         // what the limits left at the last walk
	walked  time.Time     // when the last walk ended
	took    time.Duration // the last walk

	// unnamed is the space of files that the command has open and no directory has, in bytes;
	// hidden says that there may be more of them. It is nil where nobody can tell.
	unnamed func() (bytes int64, hidden bool)

	done chan struct{}
	over chan struct{}
}

// volume is a file system that a command can write to.
type volume struct {
	dir   string
	floor int64 // how many bytes commands leave free
	first int64 // how many were free at the start
	free  usage // before the last walk
	now   usage
}

// watchDisk measures again and again until it is stopped, and kills when a limit is reached.
func (s *Sandbox) watchDisk(v *verdict, unnamed func() (int64, bool)) *quota {
	q := &quota{
		s: s, unnamed: unnamed, before: *s.used.Load(), walked: time.Now(),
		done: make(chan struct{}), over: make(chan struct{}),
	}
	q.left = usage{bytes: s.options.Limits.Disk - q.before.bytes, files: s.options.Limits.Files - q.before.files}
	for _, dir := range []string{s.options.Workspace, s.temp} {
		if free, err := freeSpace(dir); err == nil {
			q.volumes = append(q.volumes, &volume{dir: dir, floor: min(minFree, free.bytes/2), first: free.bytes, free: free, now: free})
		}
		if sameVolume(s.options.Workspace, s.temp) {
			break
		}
	}
	go q.watch(v)
	return q
}

func (q *quota) watch(v *verdict) {
	defer close(q.over)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		select {
		case <-q.done:
			return
		case <-poll.C:
		}
		reason, err := q.look()
		if reason != "" || err != nil {
			v.end(reason, err)
			return
		}
	}
}

// look measures if it is time to.
func (q *quota) look() (Reason, error) {
	var lost usage
	for _, one := range q.volumes {
		free, err := freeSpace(one.dir)
		if err != nil {
			continue // nothing is known; the walk goes on
		}
		if free.bytes < one.floor {
			return EndedDisk, nil
		}
		one.now = free
		lost.bytes += max(0, one.free.bytes-free.bytes)
		lost.files += max(0, one.free.files-free.files)
	}
	since := time.Since(q.walked)
	due := since >= max(diskInterval, 10*q.took)
	early := since >= 2*q.took && lost.much(q.left, q.s.options.Limits)
	if !due && !early {
		return "", nil
	}
	for _, one := range q.volumes {
		one.free = one.now
	}
	began := time.Now()
	reason, err := q.measure(false)
	q.walked = time.Now()
	q.took = q.walked.Sub(began)
	return reason, err
}

func (q *quota) stop() {
	close(q.done)
	<-q.over
}

// check measures once more when nothing can write any more, and makes everything readable for the
// worker again.
func (q *quota) check() (Reason, error) { return q.measure(true) }

// measure says which limit is exceeded. A command that began beyond one may go on while it makes that
// no worse: or nobody could remove what is too much.
func (q *quota) measure(final bool) (Reason, error) {
	limits := q.s.options.Limits
	files := limits.Files
	switch {
	case final:
		files = 0 // everything is to be made readable
	case files > 0:
		files = max(files, q.before.files)
	}
	if limits.Disk > 0 && !final {
		limits.Disk = max(limits.Disk, q.before.bytes)
	}
	sum, err := q.s.measure(files, final)
	if errors.Is(err, errTooMany) {
		return EndedFiles, nil
	}
	if err != nil {
		return "", err
	}
	if !final && q.unnamed != nil {
		sum.bytes = q.withUnnamed(sum.bytes)
	}
	q.s.used.Store(&sum)
	q.left = usage{bytes: limits.Disk - sum.bytes, files: limits.Files - sum.files}
	switch {
	case limits.Files > 0 && sum.files > max(limits.Files, files):
		return EndedFiles, nil
	case limits.Disk > 0 && sum.bytes > limits.Disk:
		return EndedDisk, nil
	}
	return "", nil
}

// withUnnamed adds files that no directory has. Where some cannot be seen, all that the file systems
// have lost since the command began is taken for the command's.
func (q *quota) withUnnamed(bytes int64) int64 {
	open, hidden := q.unnamed()
	if bytes += open; !hidden {
		return bytes
	}
	lost := q.before.bytes
	for _, one := range q.volumes {
		lost += max(0, one.first-one.now.bytes)
	}
	return max(bytes, lost)
}

// measure adds up the workspace and the temporary directory. More files than the limit, if it is
// not 0, end it with errTooMany.
func (s *Sandbox) measure(limit int, access bool) (usage, error) {
	var sum usage
	for _, dir := range []string{s.options.Workspace, s.temp} {
		check := func(n int) error {
			if limit > 0 && sum.files+n > limit {
				return errTooMany
			}
			return nil
		}
		u, err := measure(dir, check, access)
		sum.bytes += u.bytes
		sum.files += u.files
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return sum, fmt.Errorf("measure %s: %w", dir, err)
		}
	}
	return sum, nil
}
