package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

const (
	// diskInterval is the minimum time between two measurements. The interval grows so that
	// measuring takes at most a tenth of the time.
	diskInterval = time.Second

	// pollInterval is the time between two checks of the free space. If the loss is significant, a
	// measurement follows at once.
	pollInterval = 25 * time.Millisecond

	// lossBytes and lossFiles are the smallest significant losses. Smaller ones may come from other
	// processes.
	lossBytes = 1 << 20
	lossFiles = 500

	// maxDepth bounds the nesting of directories. Deeper nesting is treated as too many files.
	maxDepth = 256

	// minFree is the free space that commands must leave, in bytes, or half of the space that was
	// free at their start if that is less.
	minFree = 512 << 20
)

// usage is the size of a directory's content, or the free space of a file system.
type usage struct {
	bytes int64 // sum over the files of the length or the space on disk, whichever is larger
	files int   // files and directories, without the root
}

func (u usage) isSignificant(left usage, limits Limits) bool {
	return limits.Disk > 0 && u.bytes >= max(lossBytes, left.bytes/4) ||
		limits.Files > 0 && u.files >= max(lossFiles, left.files/4)
}

type quota struct {
	s       *Sandbox
	volumes []*volume
	before  usage         // measured after the previous command
	left    usage         // rest of the limits, at the last measurement
	ended   time.Time     // end of the last measurement
	took    time.Duration // duration of the last measurement

	// unnamed returns the size of the command's open files without a name, and whether it may have
	// missed some. It is nil if they cannot be measured.
	unnamed func() (bytes int64, hidden bool)

	stop func() // ends the watching
}

// volume is a file system that a command can write to.
type volume struct {
	dir   string
	floor int64 // bytes that commands leave free
	first int64 // bytes free at the start
	free  usage // free space at the last measurement
	now   usage
}

// watchDisk measures the disk usage until the quota is stopped, and ends the command at a limit.
func (s *Sandbox) watchDisk(ctx context.Context, end context.CancelCauseFunc, unnamed func() (int64, bool)) *quota {
	q := &quota{s: s, unnamed: unnamed, before: *s.used.Load(), ended: time.Now()}
	q.left = usage{bytes: s.options.Limits.Disk - q.before.bytes, files: s.options.Limits.Files - q.before.files}
	dirs := []string{s.temp, s.options.Workspace}
	if s.options.Tree != nil || sameVolume(s.options.Workspace, s.temp) {
		dirs = dirs[:1]
	}
	for _, dir := range dirs {
		if free, err := freeSpace(dir); err == nil {
			q.volumes = append(q.volumes, &volume{dir: dir, floor: min(minFree, free.bytes/2), first: free.bytes, free: free, now: free})
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { q.watchSpace(ctx, end) })
	q.stop = func() {
		cancel()
		watching.Wait()
	}
	return q
}

func (q *quota) watchSpace(ctx context.Context, end context.CancelCauseFunc) {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
		if err := q.pollSpace(); err != nil {
			end(err)
			return
		}
	}
}

func (q *quota) pollSpace() error {
	var lost usage
	for _, v := range q.volumes {
		free, err := freeSpace(v.dir)
		if err != nil {
			continue // measurements still detect the limit
		}
		if free.bytes < v.floor {
			return exceeded(endedDisk)
		}
		v.now = free
		lost.bytes += max(0, v.free.bytes-free.bytes)
		lost.files += max(0, v.free.files-free.files)
	}
	since := time.Since(q.ended)
	due := since >= max(diskInterval, 10*q.took)
	early := since >= 2*q.took && lost.isSignificant(q.left, q.s.options.Limits)
	if !due && !early {
		return nil
	}
	for _, v := range q.volumes {
		v.free = v.now
	}
	start := time.Now()
	err := q.measureUsage(false)
	q.ended = time.Now()
	q.took = q.ended.Sub(start)
	return err
}

// measureUsage returns an error if a limit is exceeded. A command that starts above a limit may remove
// files but not add any. The final measurement also makes all files readable for the worker.
func (q *quota) measureUsage(final bool) error {
	limits := q.s.options.Limits
	files := max(limits.Files, q.before.files)
	if limits.Files == 0 || final {
		files = 0
	}
	if limits.Disk > 0 && !final {
		limits.Disk = max(limits.Disk, q.before.bytes)
	}
	sum, err := q.s.measureUsage(files, final)
	if err != nil {
		return err
	}
	if !final && q.unnamed != nil {
		sum.bytes = q.addUnnamed(sum.bytes)
	}
	q.s.used.Store(&sum)
	q.left = usage{bytes: limits.Disk - sum.bytes, files: limits.Files - sum.files}
	switch {
	case limits.Files > 0 && sum.files > max(limits.Files, files):
		return exceeded(endedFiles)
	case limits.Disk > 0 && sum.bytes > limits.Disk:
		return exceeded(endedDisk)
	}
	return nil
}

// addUnnamed adds the size of files without a name. If some of them may be hidden, it assumes that
// they use all space that the file systems have lost.
func (q *quota) addUnnamed(bytes int64) int64 {
	open, hidden := q.unnamed()
	if bytes += open; !hidden {
		return bytes
	}
	lost := q.before.bytes
	for _, v := range q.volumes {
		lost += max(0, v.first-v.now.bytes)
	}
	return max(bytes, lost)
}

// measureUsage returns the usage of the workspace and the temporary directory. It fails above a limit of
// files, unless that is 0.
func (s *Sandbox) measureUsage(limit int, access bool) (usage, error) {
	var sum usage
	for _, dir := range []string{s.options.Workspace, s.temp, s.options.Caches.Dir} {
		check := func(n int) error {
			if limit > 0 && sum.files+n > limit {
				return exceeded(endedFiles)
			}
			return nil
		}
		u, err := directoryUsage(dir, check, access)
		sum.bytes += u.bytes
		sum.files += u.files
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return sum, fmt.Errorf("measure %s: %w", dir, err)
		}
	}
	return sum, nil
}
