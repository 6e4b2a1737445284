package step

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/directory"
)

// check prints what the actions in a session directory come to, as JSON, and
// ends with hall.ExitOK for a consensus and hall.ExitNoAnswer without one. The team is
// whoever has a step there, and the agents of --config if that is given, whose
// rules then hold. With --next it is the agents to be launched next instead, one a
// line.
func check(c *hall.CLI, f flags) error {
	root, err := openSession(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var rules coordination.Config
	if c.Config != "" {
		team, _, err := team.Read(c.Config, config.Local)
		if err != nil {
			return err
		}
		rules = directory.Rules(team)
	}
	found, warnings, err := directory.Read(root)
	if err != nil {
		return fmt.Errorf("check the session directory %s: %w", f.dir, err)
	}
	report := found.Check(rules, found.Running(root))
	report.Warnings = append(report.Warnings, warnings...)
	for _, w := range warnings {
		c.Warnf("%s", w)
	}
	if err := printReport(c, report, f.next); err != nil {
		return err
	}
	if report.Consensus == nil {
		return hall.Exit(hall.ExitNoAnswer)
	}
	return nil
}

func printReport(c *hall.CLI, report directory.Report, next bool) error {
	if !next {
		return c.PrintJSON(report)
	}
	for _, agent := range report.Next {
		if _, err := fmt.Fprintln(c.Stdout, agent); err != nil {
			return hall.PrintError(err)
		}
	}
	return nil
}

// openSession opens a session directory that is there. The root's name is its
// absolute path.
func openSession(dir string) (*os.Root, error) {
	if dir == "" {
		return nil, errors.New("no session directory is named; name one with --session-dir DIR")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the session directory %s: %w", dir, err)
	}
	root, err := os.OpenRoot(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no session directory %s; name one with --session-dir DIR", dir)
	case err != nil:
		return nil, fmt.Errorf("open the session directory %s: %w; name one with --session-dir DIR", dir, err)
	}
	return root, nil
}
