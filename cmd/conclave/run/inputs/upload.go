package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/text"
)

// Upload stores a directory. On stderr it reports the progress, the files left out, and the sizes.
func Upload(ctx context.Context, c *cli.CLI, store artifact.Store, dir string, secrets bool) (snapshot.Uploaded, error) {
	u := snapshot.Upload{Store: store, Dir: dir, Secrets: secrets, Now: time.Now, Git: gitSettings(ctx, dir)}
	if kept, err := c.KeepDir(); err == nil {
		u.Known = knownFile(kept, dir)
	}
	bar := &bar{cli: c, dir: dir}
	if c.Interactive() {
		u.Progress = bar.showProgress
	}
	done, err := u.Run(ctx)
	bar.clearLine()
	if err != nil {
		return done, explainFailure(ctx, err)
	}
	printUpload(c, dir, done)
	return done, nil
}

// KnownDir is the directory, within the data directory, with the hashes of uploaded files.
const KnownDir = "bases/known"

func knownFile(dataDir, dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Join(dataDir, KnownDir, artifact.SumOf([]byte(dir))+".json")
}

// explainFailure converts an error about the directory to a usage error.
func explainFailure(ctx context.Context, err error) error {
	_, limit := errors.AsType[*artifact.LimitError](err)
	_, path := errors.AsType[*fs.PathError](err)
	switch {
	case ctx.Err() != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted: nothing was started, and what was uploaded is removed by `conclave prune`")
	case limit, path:
		return cli.Exitf(cli.ExitUsage, "%w", err)
	}
	return err
}

// maxNamed is the maximum number of files named in a message.
const maxNamed = 20

func printUpload(c *cli.CLI, dir string, done snapshot.Uploaded) {
	for _, w := range done.LeftOut[:min(len(done.LeftOut), maxNamed)] {
		c.Warnf("%s: %s", dir, w)
	}
	if more := len(done.LeftOut) - maxNamed; more > 0 {
		c.Warnf("%s: %d more files were left out", dir, more)
	}
	if len(done.Secrets) > 0 {
		c.Warnf("%s: left out because of secrets: %s; --include-secrets includes them", dir, joinNames(done.Secrets))
	}
	if !c.Scripted() {
		sent := "all of it is stored already"
		if done.Sent > 0 {
			sent = "sent " + text.Size(done.Sent)
		}
		c.Infof("%s: %s, %s; %s", dir, cli.Plural(done.Files, "file"), text.Size(done.Bytes), sent)
	}
}

func joinNames(paths []string) string {
	list := strings.Join(paths[:min(len(paths), maxNamed)], ", ")
	if more := len(paths) - maxNamed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// bar is a terminal line that shows the progress of an upload.
type bar struct {
	cli   *cli.CLI
	dir   string
	shown time.Time
	width int
}

// barCells is the width of the bar in characters.
const barCells = 24

func (b *bar) showProgress(p snapshot.Progress) {
	if time.Since(b.shown) < 100*time.Millisecond {
		return
	}
	b.shown = time.Now()
	full := 0
	if p.AllBytes > 0 {
		full = int(min(barCells, barCells*p.Bytes/p.AllBytes))
	}
	line := fmt.Sprintf("uploading %s [%s%s] %s of %s, %d of %d files", text.OneLine(text.Terminal(filepath.Base(b.dir))),
		strings.Repeat("█", full), strings.Repeat("░", barCells-full), text.Size(p.Bytes), text.Size(p.AllBytes), p.Files, p.AllFiles)
	fmt.Fprintf(b.cli.Stderr, "\r\x1b[K%s", line)
	b.width = len(line)
}

func (b *bar) clearLine() {
	if b.width > 0 {
		fmt.Fprint(b.cli.Stderr, "\r\x1b[K")
	}
}

// gitSettings returns the settings of git for a directory, or none if it is in no repository or git
// is not installed.
func gitSettings(ctx context.Context, dir string) artifact.Git {
	s := artifact.Git{Excludes: excludeFiles(ctx, dir)}
	for name := range strings.SplitSeq(gitOutput(ctx, dir, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard"), "\x00") {
		if name != "" {
			s.Tracked = append(s.Tracked, name)
		}
	}
	return s
}

// excludeFiles returns the files, besides .gitignore, from which git reads ignore patterns for a
// directory: core.excludesFile, then the repository's info/exclude, which takes precedence. It
// returns nil if git is not installed.
func excludeFiles(ctx context.Context, dir string) []string {
	own := gitOutput(ctx, dir, "rev-parse", "--git-path", "info/exclude")
	if own == "" {
		return nil
	}
	if !filepath.IsAbs(own) {
		own = filepath.Join(dir, own)
	}
	users := gitOutput(ctx, dir, "config", "--type=path", "--get", "core.excludesFile")
	if users == "" {
		users = defaultExcludes()
	}
	if !filepath.IsAbs(users) {
		users = filepath.Join(dir, users)
	}
	return []string{users, own}
}

func defaultExcludes() string {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home, _ := os.UserHomeDir() // without one the file does not exist
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "git", "ignore")
}

// gitOutput returns the output of a git command on a directory, or "" if it fails. It starts in an empty
// directory. The configuration of a repository may name programs, which git does not start here.
func gitOutput(ctx context.Context, dir string, args ...string) string {
	dir, err := filepath.Abs(dir)
	empty, unmade := os.MkdirTemp("", "conclave-git-")
	if err != nil || unmade != nil {
		return ""
	}
	defer func() { _ = os.Remove(empty) }()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull}, args...)...)
	cmd.Dir, cmd.Env = empty, append(os.Environ(), "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(out), "\n")
}

// Flags are the flags --base, --context and --include-secrets, and --image of questions.
type Flags struct {
	base    string
	context []string
	secrets bool
	images  []string
}

// Add adds the flags to a command.
func (f *Flags) Add(set *pflag.FlagSet) {
	set.StringVar(&f.base, "base", "", "start every step with the files of `DIR`, without ignored files and secrets; source:NAME: with those that a source of the worker has at the start")
	set.StringArrayVar(&f.context, "context", nil, "show the files of `DIR[=NAME]` read-only as context/NAME/ (default: the name of DIR); repeatable")
	set.BoolVar(&f.secrets, "include-secrets", false, "with --base and --context: include .env, private keys and other files with secrets")
}

// AddImages adds --image.
func (f *Flags) AddImages(set *pflag.FlagSet) {
	set.StringArrayVar(&f.images, "image", nil, "show the picture `FILE` with the question; repeatable, up to 20")
}

// HasBase reports whether --base is given.
func (f *Flags) HasBase() bool { return f.base != "" }

// Source returns the name of the worker's source that --base names, if it names one.
func (f *Flags) Source() (name string, ok bool) { return artifact.Material{Base: f.base}.Source() }

// Fixed returns the flag that names files of this machine, or "".
func (f *Flags) Fixed() string {
	_, source := f.Source()
	switch {
	case f.base != "" && !source:
		return "--base"
	case len(f.context) > 0:
		return "--context"
	case len(f.images) > 0:
		return "--image"
	}
	return ""
}

// Directory returns the absolute path of --base, or "" without the flag or if it names a source.
func (f *Flags) Directory() string {
	if _, source := f.Source(); source || f.base == "" {
		return ""
	}
	dir, err := filepath.Abs(f.base)
	if err != nil {
		return f.base
	}
	return dir
}

// source is a directory to upload.
type source struct{ name, dir string }

// Check refuses directories that do not exist, and context names and pictures that cannot be shown.
func (f *Flags) Check() error {
	_, err := f.listSources()
	if err == nil {
		_, err = f.readPictures()
	}
	return err
}

// listSources returns the directories. The base has an empty name.
func (f *Flags) listSources() ([]source, error) {
	var sources []source
	name, named := f.Source()
	switch {
	case named && artifact.CheckContextName(name) != nil:
		return nil, fmt.Errorf("--base %s: it is not the name of a source; name one of the worker's configuration, or a directory as ./%[1]s", f.base)
	case f.base != "" && !named:
		sources = append(sources, source{dir: f.base})
	}
	names := map[string]bool{}
	for _, value := range f.context {
		s := source{dir: value}
		if at := strings.LastIndexByte(value, '='); at > 0 {
			s.dir, s.name = value[:at], value[at+1:]
		} else if abs, err := filepath.Abs(value); err == nil {
			s.name = filepath.Base(abs)
		}
		if err := artifact.CheckContextName(s.name); err != nil {
			return nil, fmt.Errorf("--context %s: %w; give one as DIR=NAME", value, err)
		}
		if names[s.name] {
			return nil, fmt.Errorf("--context %s: there is another context %s; give this one a name as DIR=NAME", value, s.name)
		}
		names[s.name] = true
		sources = append(sources, s)
	}
	for _, s := range sources {
		if err := CheckDirectory(s.dir); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// CheckDirectory refuses a path that is not a directory.
func CheckDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("upload %s: %w; name a directory", dir, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("upload %s: it is a file; name a directory", dir)
	}
	return nil
}

// Upload stores the directories in the connected store and returns their references.
func (f *Flags) Upload(ctx context.Context, conn *cli.Connection) (artifact.Material, error) {
	if conn.Store == nil && (f.Directory() != "" || len(f.context) > 0 || len(f.images) > 0) {
		return artifact.Material{}, fmt.Errorf("--base, --context and --image need the bucket of the cluster's sessions: name it with --bucket (and --prefix)")
	}
	return f.Store(ctx, conn.CLI, conn.Store)
}

// Store stores the directories and the pictures, and returns their references.
func (f *Flags) Store(ctx context.Context, c *cli.CLI, store artifact.Store) (m artifact.Material, err error) {
	sources, err := f.listSources()
	if err != nil {
		return m, err
	}
	if _, named := f.Source(); named {
		m.Base = f.base
	}
	for _, s := range sources {
		done, err := Upload(ctx, c, store, s.dir, f.secrets)
		if err != nil {
			return m, err
		}
		if s.name == "" {
			m.Base = snapshot.Reference(done.Hash)
		} else {
			m.Context = append(m.Context, artifact.Context{Name: s.name, Manifest: snapshot.Reference(done.Hash)})
		}
	}
	files, err := f.readPictures()
	if err == nil {
		m.Images, err = StorePictures(ctx, store, files)
	}
	return m, err
}

// uploaded is the JSON output of upload.
type uploaded struct {
	Reference string `json:"reference"`
	snapshot.Uploaded
}

// Command returns `conclave upload`.
func Command(c *cli.CLI) *cobra.Command {
	var secrets bool
	cmd := &cobra.Command{
		Use:   "upload DIR",
		Short: "Store DIR as a base or context and print its reference",
		Long: `Store the files of a directory as a base or a context of sessions, and print its
reference, sha256:…, for the input of workflows that other clients start.

.gitignore files count as in git, where they do not concern tracked files, and
.conclaveignore files after them, for all files; .git never travels, in no spelling. Links stay links; those that lead out of the directory, sockets, devices and
unreadable files are named and left out, as are files with secrets: usual names (.env,
prod.env, kubeconfig, *.tfstate), private keys, tokens, passwords in addresses.
At most 100,000 files, 2 GiB together and 100 MB each are accepted.

Unchanged files are not read again, and contents that the store has are not sent
again. Without an address the local data directory stores the files; for a
cluster, name its bucket with --bucket. After a day, prune removes files that no
session uses.`,
		Example: `  conclave upload .
  conclave upload ~/src/service --json | jq -r .reference
  conclave upload docs --bucket sessions --prefix team-a
  temporal workflow start --task-queue conclave --type Session --workflow-id s1 \
    --input "{\"query\":\"Mend the tests\",\"base\":\"$(conclave upload . --bucket sessions)\"}"`,
		Args: cli.Arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := CheckDirectory(args[0]); err != nil {
				return err
			}
			conn, err := c.ConnectStore(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			done, err := Upload(cmd.Context(), c, conn.Store, args[0], secrets)
			if err != nil {
				return err
			}
			return printUploaded(c, done)
		},
	}
	cmd.Flags().BoolVar(&secrets, "include-secrets", false, "include .env, private keys and other files with secrets")
	return cmd
}

func printUploaded(c *cli.CLI, done snapshot.Uploaded) error {
	reference := snapshot.Reference(done.Hash)
	if !c.Scripted() {
		return c.Print(reference + "\n")
	}
	done.Secrets = append([]string{}, done.Secrets...) // the JSON list is never null
	done.LeftOut = append([]artifact.Warning{}, done.LeftOut...)
	return c.PrintJSON(uploaded{reference, done})
}
