//go:build linux

package attack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"conclave/activities/sandbox"
)

// check is one call of Run.
type check struct {
	options  Options
	self     string // our program
	dir      string // contains everything that is made
	programs string // contains the attacker's program
}

// Names are the names of all attacks, in the order of Run.
func Names() []string {
	var names []string
	for _, a := range list() {
		names = append(names, a.name)
	}
	return names
}

// Run carries out the attacks, one after the other, and returns a result for each.
// A host that does not give the level is refused with *sandbox.LevelError before
// anything runs, and so is a name that is not in the list. The program that calls
// Run has to call RunChild when it is started with ChildCommand.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if o.Level == "" {
		o.Level = sandbox.Full
	}
	if o.Host.Level == "" {
		o.Host = sandbox.Probe(ctx)
	}
	if err := errors.Join(require(o.Level, o.Host), known(o.Only)); err != nil {
		return nil, err
	}
	c := &check{options: o}
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("prepare the attacks: %w", errors.Join(err, os.RemoveAll(c.dir)))
	}
	var results []Result
	for _, a := range list() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, a.name) {
			continue
		}
		r := c.judge(ctx, a)
		if err := ctx.Err(); err != nil {
			return results, errors.Join(err, os.RemoveAll(c.dir))
		}
		results = append(results, r)
		if o.Each != nil {
			o.Each(r)
		}
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return results, fmt.Errorf("remove what the attacks made: %w", err)
	}
	return results, nil
}

func known(names []string) error {
	all := Names()
	for _, n := range names {
		if !slices.Contains(all, n) {
			return fmt.Errorf("there is no attack %q; there are: %s", n, strings.Join(all, ", "))
		}
	}
	return nil
}

// longest is how long the path of the attacks' directory may be, in bytes, so that
// paths of Unix sockets in it stay below the kernel's 108.
const longest = 75

// prepare makes the directory and puts our program where commands can run it.
func (c *check) prepare() error {
	dir, err := os.MkdirTemp(cmp.Or(c.options.Dir, "/var/tmp"), "attack")
	if err != nil {
		return err
	}
	if c.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.Chmod(c.dir, 0o711); err != nil { // the attacker may be another user
		return err
	}
	if len(c.dir) > longest {
		return fmt.Errorf("the path %s is too long for Unix sockets; use a directory with a path of less than %d bytes", c.dir, longest-20)
	}
	if c.self, err = os.Executable(); err != nil {
		return err
	}
	if err := c.tryToolchains(); err != nil {
		return err
	}
	c.programs = filepath.Join(c.dir, "bin")
	if err := os.Mkdir(c.programs, 0o755); err != nil {
		return err
	}
	return copyProgram(c.self, filepath.Join(c.programs, attacker))
}

// tryToolchains refuses those that no sandbox takes. The workers of the attacks could not: they have
// another home directory.
func (c *check) tryToolchains() error {
	workspace := filepath.Join(c.dir, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return err
	}
	box, err := sandbox.Open(sandbox.Options{
		Workspace: workspace, Temp: c.dir, Level: c.options.Level, Host: c.options.Host,
		Toolchains: c.options.Toolchains, Private: c.options.Private,
	})
	if err != nil {
		return err
	}
	return errors.Join(box.Close(), os.Remove(workspace))
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
