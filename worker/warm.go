package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"conclave/activities"
	"conclave/activities/sandbox"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
)

// compile makes the build products of Go modules and their tests, and runs nothing of them: code of a base
// could write into the cache, and so into the commands of every agent and check. Go does not take the
// outcome of a test whose program was given to another program for that of the test.
const compile = `for dir; do (cd "$dir" && go vet ./...; go test -exec true ./...); done`

// standard lists packages of the standard library that many programs need.
const standard = `bufio bytes cmp context crypto/sha256 encoding/base64 encoding/hex encoding/json errors flag fmt io io/fs
	log log/slog maps math/rand net/http net/http/httptest net/url os os/exec os/signal path/filepath reflect regexp
	slices sort strconv strings sync sync/atomic testing text/tabwriter text/template time unicode/utf8`

// startWarming starts to make the lower layer of Go's build cache for a base, unless there is one. made is
// closed when that has ended; it is nil if the layer is there or the base needs none. The key names the layer.
func (c *buildCaches) startWarming(b *artifact.Base) (key string, made chan struct{}) {
	modules, toolchain := modulesOf(b), c.goToolchain()
	if len(modules) == 0 || toolchain == "" || c.tools.settings.Sandbox.Caches.Go != "warm" {
		return "", nil
	}
	key = artifact.SumOf([]byte(toolchain + b.Hash()))
	c.mu.Lock()
	defer c.mu.Unlock()
	if made := c.making[key]; made != nil {
		return key, made
	}
	if _, letGo, err := c.trees.Keep(key, nil); err == nil {
		letGo()
		return key, nil
	}
	made = make(chan struct{})
	c.making[key] = made
	c.warming.Go(func() {
		defer close(made)
		_, letGo, err := c.trees.Keep(key, func(dir string) error { return c.warm(c.life, b, modules, dir) })
		if err != nil { // it is not tried again
			c.log.Info("the build products of a base could not be made", "reason", err)
			return
		}
		letGo()
		c.mu.Lock()
		delete(c.making, key)
		c.mu.Unlock()
	})
	return key, made
}

// foreignModule matches the paths of modules that are not the base's own.
var foreignModule = regexp.MustCompile(`(^|/)(vendor|testdata|node_modules|\..*)/`)

// modulesOf returns the directories of a base that have a Go module.
func modulesOf(b *artifact.Base) (dirs []string) {
	for _, f := range b.Manifest().Files {
		if path.Base(f.Path) == "go.mod" && !foreignModule.MatchString(f.Path) {
			dirs = append(dirs, path.Dir(f.Path))
		}
	}
	return dirs
}

// goToolchain identifies the compiler. It is empty if commands have no Go.
func (c *buildCaches) goToolchain() string {
	s := c.tools.settings.Sandbox
	program, err := sandbox.FindProgram("go", s.Toolchains)
	if info, gone := os.Stat(program); err == nil && gone == nil {
		return fmt.Sprintln(program, info.Size(), info.ModTime().UnixNano(), s.Level, s.Caches.GoModules)
	}
	return ""
}

// warm makes dir with the build products of a base. Those of the standard library come from a layer that all
// bases share: it is made from a module of conclave's own.
func (c *buildCaches) warm(ctx context.Context, b *artifact.Base, modules []string, dir string) error {
	home, err := os.MkdirTemp(c.dir, "conclave-warm-")
	if err != nil {
		return err
	}
	defer func() { _ = filelock.RemoveTree(home) }()
	shared, letGo, err := c.trees.Keep(artifact.SumOf([]byte(c.goToolchain()+c.standard)), func(dir string) error {
		return c.warmStandard(ctx, filepath.Join(home, "standard"), dir)
	})
	if err != nil {
		return err
	}
	defer letGo()
	loan, err := c.trees.Lend(ctx, b, filepath.Join(home, "files"), false)
	if err != nil {
		return err
	}
	defer func() { _ = loan.GiveBack(context.WithoutCancel(ctx), c.dir) }()
	if err := os.CopyFS(dir, os.DirFS(shared)); err != nil {
		return err
	}
	return c.build(ctx, loan.Dir(), dir, modules)
}

func (c *buildCaches) warmStandard(ctx context.Context, module, dir string) error {
	source := "package warm\n"
	for name := range strings.FieldsSeq(c.standard) {
		source += fmt.Sprintf("import _ %q\n", name)
	}
	err := errors.Join(os.Mkdir(module, 0o755), os.Mkdir(dir, 0o755))
	for name, content := range map[string]string{"go.mod": "module warm\n", "warm.go": source, "warm_test.go": "package warm\n"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(module, name), []byte(content), 0o644)) //nolint:gosec // commands read it
	}
	if err != nil {
		return err
	}
	return c.build(ctx, module, dir, []string{"."})
}

// build compiles the modules in directories of a workspace, with Go's build cache in dir. That it fails or reaches a
// limit is no error: the packages that it has compiled until then are of use.
func (c *buildCaches) build(ctx context.Context, workspace, dir string, modules []string) error {
	o := c.tools.sandboxOptions()
	o.Workspace, o.Temp, o.Network = workspace, filepath.Dir(workspace), sandbox.Network{}
	l, err := c.tools.useCaches(&o, activities.Sharing{})
	if err != nil {
		return err
	}
	defer l.close(false)
	o.Caches = sandbox.Caches{Dir: dir, Open: func(ctx context.Context, args []string) []sandbox.Cache {
		others := slices.DeleteFunc(l.openFor(ctx, args), func(k sandbox.Cache) bool { return k.Name == "go-build" })
		return append(others, sandbox.Cache{Name: "go-build", Variable: "GOCACHE", Dir: dir})
	}}
	box, err := sandbox.Open(o)
	if err != nil {
		return err
	}
	_, err = box.Run(ctx, sandbox.Command{Args: append([]string{"sh", "-c", compile, "sh"}, modules...), Env: map[string]string{"GOTOOLCHAIN": "local"}})
	return errors.Join(err, box.Close())
}
