package worker

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/activities"
	"conclave/activities/sandbox"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/snapshot"
)

// buildCaches gives commands in the sandbox the caches of build tools. A cache has two layers, which
// commands see as one directory:
//
//  1. The upper layer has the additions by the commands of one agent in one session or run. Only that agent
//     uses it, in one step at a time. A check has one of its own, which is removed at its end.
//  2. The lower layer is shared, and no command can change it. Conclave has made it (warm.go), or it is the
//     host's, if the operator says so.
//
// So nothing that a command writes to a cache reaches another agent, a check, a later run or the host.
type buildCaches struct {
	tools *Tools
	log   *slog.Logger
	trees *snapshot.Trees
	dir   string // directory of the upper layers
	kinds func() []cacheKind

	standard string // packages of the standard library that all bases share

	life    context.Context // ends with this worker
	end     context.CancelFunc
	warming sync.WaitGroup

	mu     sync.Mutex
	unused []*layer                 // upper layers that wait for the next step of their agent, the oldest first
	making map[string]chan struct{} // closed when a lower layer, by its key, is made or cannot be made
}

const maxUnused = 32 // upper layers that wait

// cacheKind is a cache of a build tool.
type cacheKind struct {
	name, variable string // as in sandbox.Cache
	origin         string // of the lower layer: own for none, warm or host
	host           string // the host's directory
}

func newBuildCaches(t *Tools, trees *snapshot.Trees, dir string) *buildCaches {
	c := &buildCaches{tools: t, log: cmp.Or(t.Log, slog.New(slog.DiscardHandler)), trees: trees, dir: dir, standard: standard, making: map[string]chan struct{}{}}
	c.life, c.end = context.WithCancel(context.Background())
	c.kinds = sync.OnceValue(c.listKinds)
	return c
}

// close waits for the end of the commands that make lower layers.
func (c *buildCaches) close() {
	c.end()
	c.warming.Wait()
}

// listKinds returns the caches of the tools that commands have.
func (c *buildCaches) listKinds() (kinds []cacheKind) {
	s := c.tools.settings.Sandbox
	home, _ := os.UserHomeDir()
	cache, _ := os.UserCacheDir()
	named := func(variable, usual string) string {
		if dir := c.tools.lookupVariable(variable); dir != "" {
			return dir
		}
		return usual
	}
	for _, tool := range []struct {
		program string
		cacheKind
	}{
		{"go", cacheKind{"go-build", "GOCACHE", s.Caches.Go, named("GOCACHE", cache+"/go-build")}},
		{"go", cacheKind{"go-mod", "GOMODCACHE", s.Caches.GoModules, named("GOMODCACHE", named("GOPATH", home+"/go")+"/pkg/mod")}},
		{"npm", cacheKind{"npm", "npm_config_cache", s.Caches.NPM, named("npm_config_cache", home+"/.npm")}},
		{"python3", cacheKind{"pip", "PIP_CACHE_DIR", s.Caches.Pip, named("PIP_CACHE_DIR", cache+"/pip")}},
		{"cargo", cacheKind{"cargo", "CARGO_HOME", "own", ""}}, // the host's has keys
		{"cargo", cacheKind{"cargo/registry", "", s.Caches.Cargo, named("CARGO_HOME", home+"/.cargo") + "/registry"}},
	} {
		// A directory in another cache is a mount.
		pointless := tool.variable == "" && (tool.origin != "host" || s.Level != string(sandbox.Full))
		if _, err := sandbox.FindProgram(tool.program, s.Toolchains); err == nil && !pointless {
			kinds = append(kinds, tool.cacheKind)
		}
	}
	return kinds
}

// layer is an upper layer of all caches. The fields from base on are those of the step that uses it.
type layer struct {
	caches     *buildCaches
	run, agent string // empty if it is not kept
	dir        string
	lower      map[string]string // the directory below each cache since its first use; empty for none

	base *artifact.Base // the files that lower layers are made from; nil for none
	work string         // the workspace
	open map[string]sandbox.Cache
	undo []func()
}

// useCaches gives a sandbox the layer that an agent of a run has left, unless another step uses it, or a new
// one. The caller must close it. Without a name it is not kept. It is nil outside of a worker, and for
// commands that may leave processes.
func (t *Tools) useCaches(o *sandbox.Options, s activities.Sharing) (*layer, error) {
	c := t.caches
	if c == nil || o.Level == sandbox.Off {
		return nil, nil
	}
	left := c.takeUnused(func(l *layer) bool { return l.run == s.Run && l.agent == s.Agent })
	if len(left) == 0 {
		dir, err := os.MkdirTemp(c.dir, "conclave-cache-")
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir) // as mounts require
		}
		if err != nil {
			return nil, err
		}
		left = []*layer{{caches: c, run: s.Run, agent: s.Agent, dir: dir, lower: map[string]string{}}}
	}
	l := left[0]
	l.base, l.work, l.open = s.Base, o.Workspace, map[string]sandbox.Cache{}
	c.startWarming(s.Base)
	o.Caches = sandbox.Caches{Dir: l.dir, Open: l.openFor}
	return l, nil
}

func (c *buildCaches) takeUnused(fits func(*layer) bool) (taken []*layer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken = slices.DeleteFunc(slices.Clone(c.unused), func(l *layer) bool { return !fits(l) })
	c.unused = slices.DeleteFunc(c.unused, fits)
	return taken
}

// endRun removes the layers of a run.
func (c *buildCaches) endRun(run string) {
	if c == nil { // outside of a worker
		return
	}
	for _, l := range c.takeUnused(func(l *layer) bool { return l.run == run }) {
		_ = filelock.RemoveTree(l.dir)
	}
}

// close lets go of the layer. It is kept for the next step of its agent if no process can write to it any
// more, and if it leaves half of the disk limit to that step.
func (l *layer) close(ended bool) {
	if l == nil {
		return
	}
	for _, undo := range slices.Backward(l.undo) {
		undo()
	}
	l.undo = nil
	_ = filelock.RemoveTree(l.dir + ".mounts")
	drop := []*layer{l}
	if c := l.caches; ended && l.agent != "" && snapshot.SizeOf(l.dir) <= c.maxSize() {
		drop = c.takeUnused(func(o *layer) bool { return o.run == l.run && o.agent == l.agent }) // that of a concurrent attempt
		c.mu.Lock()
		c.unused = append(c.unused, l)
		over := max(0, len(c.unused)-maxUnused)
		drop = append(drop, c.unused[:over]...)
		c.unused = slices.Delete(c.unused, 0, over)
		c.mu.Unlock()
	}
	for _, l := range drop {
		_ = filelock.RemoveTree(l.dir)
	}
}

// maxSize is half of the disk limit of a step, in bytes.
func (c *buildCaches) maxSize() int64 { return int64(c.tools.settings.Sandbox.DiskMB) << 19 }

// openFor returns the caches for a command. It leaves out one whose lower layer is not ready, and one that
// cannot be made: the command then has an empty one in its home directory.
func (l *layer) openFor(ctx context.Context, args []string) (open []sandbox.Cache) {
	for _, k := range l.caches.kinds() {
		cache, placed := l.open[k.name]
		if !placed {
			lower, ready := l.findLower(ctx, k, args)
			if !ready {
				continue
			}
			var err error
			if cache, err = l.place(ctx, k, lower); err != nil {
				l.caches.log.Info("commands have no cache "+k.name, "reason", err)
				continue
			}
			l.open[k.name] = cache
		}
		open = append(open, cache)
	}
	return open
}

// place puts the layer over a lower one. A lower layer that cannot be mounted is copied.
func (l *layer) place(ctx context.Context, k cacheKind, lower string) (sandbox.Cache, error) {
	var commands config.Agent
	commands.Tools.Shell = config.ShellOn
	dir, mounts := filepath.Join(l.dir, strings.ReplaceAll(k.name, "/", "-")), l.caches.tools.overlays.mountsFor(ctx, commands)
	cache := sandbox.Cache{Name: k.name, Variable: k.variable, Dir: dir}
	if info, err := os.Stat(lower); err != nil || !snapshot.HasOwner(info) {
		mounts = nil
	}
	if lower != "" && mounts == nil && snapshot.SizeOf(lower) > l.caches.maxSize() {
		l.caches.log.Info("commands have no " + lower + ": it cannot be mounted, and a copy for each agent is too large")
		lower = ""
	}
	before, used := l.lower[k.name]
	if used && before != lower {
		return cache, errors.New("the lower layer has changed")
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return cache, err
	}
	switch {
	case lower != "" && mounts != nil:
		at := filepath.Join(l.dir+".mounts", filepath.Base(dir))
		if err := errors.Join(os.MkdirAll(at, 0o755), os.Mkdir(at+".work", 0o755), mounts.Overlay(lower, dir, at+".work", at)); err != nil {
			return cache, err
		}
		l.undo = append(l.undo, func() { _ = mounts.Unmount(at, "") }) // fails if the mounts are closed
		cache.Tree = mounts.Tree(mounts.Path(at))
	case lower != "" && !used:
		if err := os.CopyFS(dir, os.DirFS(lower)); err != nil {
			return cache, errors.Join(err, filelock.RemoveTree(dir)) // half a copy would be worse than none
		}
	}
	l.lower[k.name] = lower
	return cache, nil
}

// builds matches commands that probably build something, and wait for a lower layer. Without it they would
// take as long.
var builds = regexp.MustCompile("(?m)(^|[\\s;&|(/`'\"])(go|make)($|[\\s;&|)`'\"])")

const buildPatience, checkPatience = 5 * time.Minute, time.Minute

// maxScript bounds the scripts that are searched for the programs that they start, in bytes.
const maxScript = 64 << 10

// probablyBuilds reports whether a command names a program that builds. That of a check, which nobody has
// touched, is also searched in the scripts that it names.
func (l *layer) probablyBuilds(args []string) bool {
	command := strings.Join(args, " ")
	if builds.MatchString(command) || l.agent != "" {
		return builds.MatchString(command)
	}
	root, err := os.OpenRoot(l.work)
	if err != nil {
		return true
	}
	defer root.Close()
	for word := range strings.FieldsSeq(command) {
		name := filepath.Clean(strings.Trim(word, `"';&|`))
		if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() > maxScript {
			continue
		}
		if script, err := root.ReadFile(name); err == nil && builds.Match(script) {
			return true
		}
	}
	return false
}

// findLower returns the lower layer of a cache, or "" for none, if it is ready.
func (l *layer) findLower(ctx context.Context, k cacheKind, args []string) (dir string, ready bool) {
	switch k.origin {
	case "own":
		return "", true
	case "host":
		real, err := filepath.EvalSymlinks(k.host)
		if err != nil {
			l.caches.log.Info("commands have no cache of the host", "reason", err)
		}
		return real, true
	}
	key, made := l.caches.startWarming(l.base)
	if key == "" {
		return "", true
	}
	if made != nil {
		patience := time.Duration(0)
		switch probable := l.probablyBuilds(args); {
		case probable && l.agent == "":
			patience = checkPatience
		case probable:
			patience = buildPatience
		}
		select {
		case <-made:
		case <-time.After(patience):
			return "", false
		case <-ctx.Done():
			return "", false
		}
	}
	dir, letGo, err := l.caches.trees.Keep(key, nil)
	if err != nil { // it could not be made
		return "", true
	}
	l.undo = append(l.undo, letGo)
	return dir, true
}
