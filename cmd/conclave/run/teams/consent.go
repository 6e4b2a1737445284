package teams

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/engine/text"
	"conclave/worker/cluster"
)

// Source is the file of a team configuration.
type Source struct {
	File  string // "" if there is no file
	Named bool   // the user named the file on the command line
}

// Choose returns the file of --config, or else, unless --model names models, ProjectFile if it exists
// in the working directory.
func Choose(c *cli.CLI) Source {
	if c.NamesTeam() {
		return Source{File: c.Config, Named: true}
	}
	return foundSource()
}

func foundSource() Source {
	if _, err := os.Lstat(ProjectFile); errors.Is(err, fs.ErrNotExist) {
		return Source{}
	}
	return Source{File: ProjectFile}
}

// admitTeam returns the team parsed from the source's content, or an error if the team needs the
// user's consent and does not get it. With offline the team uses the built-in model.
func (s Source) admitTeam(c *cli.CLI, content []byte, team config.Team, offline bool) (config.Team, error) {
	if offline {
		team = team.Offline()
	}
	if s.Named || s.File == "" {
		return team, nil
	}
	untrusted, err := askTrust(c, TrustedFile{Name: s.File, Content: content, Team: team}, TrustDemands(team))
	switch {
	case err != nil || untrusted == nil:
		return team, err
	case c.CanConfirm():
		return team, fmt.Errorf("%s is not trusted, and nothing was started; name another configuration with --config FILE", s.File)
	}
	return team, untrusted
}

// UntrustedError reports a file that needs consent because it was found rather than named.
type UntrustedError struct {
	file    string
	demands []string
}

// Reason returns the reason why the file needs consent.
func (e *UntrustedError) Reason() string {
	found := "found, not named with --config,"
	if e.file == KeyFile {
		found = "found"
	}
	return fmt.Sprintf("%s was %s and is not trusted; it would\n  %s", e.file, found, strings.Join(e.demands, "\n  "))
}

// Remedy returns the command that gives consent.
func (e *UntrustedError) Remedy() string {
	return fmt.Sprintf("`conclave config trust %s` trusts it until it changes", text.ShellQuote(e.file))
}

func (e *UntrustedError) Error() string { return e.Reason() + "\n" + e.Remedy() }

// checkTrust returns an error if a found file makes demands and is not trusted in its place.
func checkTrust(f TrustedFile, demands []string) *UntrustedError {
	if len(demands) == 0 || IsTrusted(f) {
		return nil
	}
	return &UntrustedError{file: f.Name, demands: demands}
}

// askTrust is like checkTrust, but asks on a terminal and remembers a yes. Its error is that of the
// question.
func askTrust(c *cli.CLI, f TrustedFile, demands []string) (*UntrustedError, error) {
	untrusted := checkTrust(f, demands)
	if untrusted == nil || !c.CanConfirm() {
		return untrusted, nil
	}
	c.Infof("%s", untrusted.Reason())
	yes, err := c.Confirm("Trust it until it changes?")
	if err != nil || !yes {
		return untrusted, err
	}
	if _, err := RememberTrust(f); err != nil {
		c.Warnf("%v; it is trusted this time only", err)
	}
	return nil, nil
}

func trustCommand(c *cli.CLI) *cobra.Command {
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
		Args: cli.Arguments("FILE"),
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

func trustFile(c *cli.CLI, file string) error {
	f, demands, err := readTrusted(file)
	if err != nil {
		return err
	}
	record, err := RememberTrust(f)
	if err != nil {
		return err
	}
	if c.Scripted() {
		return c.PrintJSON(trusted{File: file, SHA256: f.Hash(), Allows: append([]string{}, demands...), Record: record})
	}
	if len(demands) == 0 {
		return c.Print(fmt.Sprintf("%s is trusted, but needs no trust: it starts no program and has no address and no key of its own\n", file))
	}
	return c.Print(fmt.Sprintf("%s is trusted until it changes; it may\n  %s\n", file, strings.Join(demands, "\n  ")))
}

// readTrusted reads a file that the user trusts, and returns its demands.
func readTrusted(file string) (f TrustedFile, demands []string, err error) {
	if f.Name = file; filepath.Base(file) == KeyFile {
		f.Content, err = ReadFile(file)
		return f, []string{"hold keys of the services that a team uses, and of those that it names"}, err
	}
	if f.Content, err = readConfig(file); err != nil {
		return f, nil, err
	}
	if f.Team, err = config.Parse(file, f.Content, config.Local.Beside(file)); err != nil {
		// A scenario or a step has a single agent, which needs no ID.
		single, singleErr := config.ParseSingle(file, f.Content)
		if singleErr != nil {
			return f, nil, err
		}
		f.Team = single
	}
	return f, TrustDemands(f.Team), nil
}

// TrustedFile is a team configuration, or a file of keys, in its place.
type TrustedFile struct {
	Name    string
	Content []byte      // the bytes that Team was parsed from
	Team    config.Team // its MCP servers may name further files
}

// Hash returns the hash by which a file is trusted: that of its place, its content, and the content
// of the files that its MCP servers name by their paths.
func (f TrustedFile) Hash() string {
	parts := []string{f.resolvedPath(), hashContent(bytes.NewReader(f.Content))}
	for _, path := range namedPaths(f.Team) {
		content := ""
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if file, err := os.Open(path); err == nil {
				content = hashContent(file)
				file.Close()
			}
		}
		parts = append(parts, path, content)
	}
	data, _ := json.Marshal(parts) // of strings only
	return hashContent(bytes.NewReader(data))
}

// resolvedPath returns the absolute path of the file. Its directory is resolved, but not a link in its
// place, beside which lie other files than beside its target.
func (f TrustedFile) resolvedPath() string {
	dir, err := filepath.Abs(filepath.Dir(f.Name))
	if resolved, unresolved := filepath.EvalSymlinks(dir); err == nil && unresolved == nil {
		dir = resolved
	}
	return filepath.Join(dir, filepath.Base(f.Name))
}

// namedPaths returns the absolute paths in the definitions of MCP servers, sorted. Relative ones were made
// absolute when the configuration was read.
func namedPaths(t config.Team) []string {
	var paths []string
	for _, a := range t.Models() {
		for _, server := range a.MCPServers {
			for _, word := range slices.Concat([]string{server.Command}, server.Args, slices.Collect(maps.Values(server.Env))) {
				if option, of, ok := strings.Cut(word, "="); ok && strings.HasPrefix(option, "-") {
					word = of
				}
				if filepath.IsAbs(word) {
					paths = append(paths, word)
				}
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// hashContent returns the hash of the files that can be read.
func hashContent(r io.Reader) string {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// note is the record of a trusted file, for people. Its name is the hash.
type note struct {
	File    string    `json:"file"`
	Trusted time.Time `json:"trusted"`
}

// IsTrusted reports whether the user has trusted the file as it is now.
func IsTrusted(f TrustedFile) bool {
	dir, err := storeDir()
	if err != nil {
		return false
	}
	info, err := os.Lstat(filepath.Join(dir, f.Hash()))
	return err == nil && info.Mode().IsRegular()
}

// RememberTrust trusts a file as it is now until the user removes the record, and returns the record's
// path.
func RememberTrust(f TrustedFile) (record string, err error) {
	dir, err := storeDir()
	if err != nil {
		return "", err
	}
	data, _ := json.Marshal(note{File: f.resolvedPath(), Trusted: time.Now().UTC().Truncate(time.Second)}) // a note always has a JSON form
	record = filepath.Join(dir, f.Hash())
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(record, append(data, '\n'), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("remember that %s is trusted: %w", f.Name, err)
	}
	return record, nil
}

func storeDir() (string, error) {
	dir, err := cluster.UserDir("XDG_CONFIG_HOME", ".config")
	if err != nil {
		return "", fmt.Errorf("find the directory of trusted files: %w; set XDG_CONFIG_HOME", err)
	}
	return filepath.Join(dir, "trusted"), nil
}
