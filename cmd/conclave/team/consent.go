package team

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/trust"
	"conclave/engine/config"
	"conclave/engine/text"
)

// Source is the file of a team configuration.
type Source struct {
	File  string // "" if there is no file
	Named bool   // the user named the file on the command line
}

// Choose returns the file of --config, or else ProjectFile if it exists in the working directory.
func Choose(c *hall.CLI) Source {
	if c.Config != "" {
		return Source{File: c.Config, Named: true}
	}
	return found()
}

// found returns ProjectFile if it exists in the working directory.
func found() Source {
	if _, err := os.Lstat(ProjectFile); errors.Is(err, fs.ErrNotExist) {
		return Source{}
	}
	return Source{File: ProjectFile}
}

// admit returns the team parsed from the source's content, or an error if the team needs the
// user's consent and does not get it. With offline the team uses the built-in model.
func (s Source) admit(c *hall.CLI, content []byte, team config.Team, offline bool) (config.Team, error) {
	if offline {
		team = team.Offline()
	}
	if s.Named || s.File == "" {
		return team, nil
	}
	return team, consent(c, trust.File{Name: s.File, Content: content, Team: team})
}

// UntrustedError reports a file that needs consent because it was found rather than named.
type UntrustedError struct {
	file    string
	demands []string
}

// Reason returns the reason why the file needs consent.
func (e *UntrustedError) Reason() string {
	return fmt.Sprintf("%s was found, not named with --config, and is not trusted; it would\n  %s",
		e.file, strings.Join(e.demands, "\n  "))
}

// Remedy returns the command that gives consent.
func (e *UntrustedError) Remedy() string {
	return fmt.Sprintf("`conclave config trust %s` trusts it until it changes", text.ShellQuote(e.file))
}

func (e *UntrustedError) Error() string { return e.Reason() + "\n" + e.Remedy() }

// checkTrust returns an error if a found team needs trust and its file is not trusted in
// its place.
func checkTrust(f trust.File) *UntrustedError {
	demands := trust.Demands(f.Team)
	if len(demands) == 0 || trust.Trusted(f) {
		return nil
	}
	return &UntrustedError{file: f.Name, demands: demands}
}

// consent is like checkTrust, but asks on a terminal and remembers a yes.
func consent(c *hall.CLI, f trust.File) error {
	untrusted := checkTrust(f)
	switch {
	case untrusted == nil:
		return nil
	case !c.CanConfirm():
		return untrusted
	}
	c.Infof("%s", untrusted.Reason())
	yes, err := c.Confirm("Trust it until it changes?")
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("%s is not trusted, and nothing was started; name another configuration with --config FILE", f.Name)
	}
	if _, err := trust.Remember(f); err != nil {
		c.Warnf("%v; it is trusted this time only", err)
	}
	return nil
}

func trustCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "trust FILE",
		Short: "Trust a configuration that commands find by themselves",
		Long: `Trust a team configuration until it changes, and print what it may do.

Commands find ./` + ProjectFile + ` by themselves. If it starts programs (MCP
servers), has addresses of its own (base_url, url), or sends other keys than that
of the API it uses, they ask on a terminal, and refuse elsewhere, until the file is
trusted: in a cloned repository somebody else has written it. A file named
with --config, or written by ` + "`conclave config init`" + `, is trusted.

Trust is of the file in its place: the same file in another directory, and this one when
a local file has changed that its MCP servers name (a script, ./server.py), are asked
about again. It is remembered by a hash in $XDG_CONFIG_HOME/conclave/trusted (default
~/.config); remove a file there to end it.`,
		Example: `  conclave config trust conclave.yaml
  conclave config trust --json conclave.yaml | jq -r '.allows[]'`,
		Args: hall.Arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return trustFile(c, args[0]) },
	}
}

// trusted is the JSON output of trust.
type trusted struct {
	File   string   `json:"file"`
	SHA256 string   `json:"sha256"` // of the place, the content and the local files
	Allows []string `json:"allows"`
	Record string   `json:"record"` // record of the trust
}

func trustFile(c *hall.CLI, file string) error {
	data, err := readConfig(file)
	if err != nil {
		return err
	}
	team, err := config.Parse(file, data, config.Local.Beside(file))
	if err != nil {
		// A scenario or a step has a single agent, which needs no ID.
		single, singleErr := config.ParseSingle(file, data)
		if singleErr != nil {
			return err
		}
		team = single
	}
	f := trust.File{Name: file, Content: data, Team: team}
	record, err := trust.Remember(f)
	if err != nil {
		return err
	}
	demands := trust.Demands(team)
	if c.Scripted() {
		return c.PrintJSON(trusted{File: file, SHA256: f.Hash(), Allows: append([]string{}, demands...), Record: record})
	}
	if len(demands) == 0 {
		return c.Print(fmt.Sprintf("%s is trusted, but needs no trust: it starts no program and has no address and no key of its own\n", file))
	}
	return c.Print(fmt.Sprintf("%s is trusted until it changes; it may\n  %s\n", file, strings.Join(demands, "\n  ")))
}
