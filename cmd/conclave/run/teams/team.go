package teams

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/engine/config/massgen"
	"conclave/engine/text"
	"conclave/worker"
	"conclave/workflows"
)

// ProjectFile is the team configuration of the working directory.
const ProjectFile = "conclave.yaml"

// ModelFlags adds --model and --agents to a command whose team needs no file.
func ModelFlags(c *cli.CLI, set *pflag.FlagSet) {
	set.StringArrayVar(&c.Models, "model", nil, "in place of a configuration: `[KIND:]NAME[,…]`, a model for the whole team, or one for each member")
	set.Func("agents", "`N` members of a team of one --model (default 3; of step 1)", func(n string) (err error) {
		if c.Agents, err = strconv.Atoi(n); err != nil || c.Agents < 1 || c.Agents > config.MaxAgents {
			err = fmt.Errorf("a team has 1 to %d members", config.MaxAgents)
		}
		return err
	})
}

// CheckFlags refuses flags that contradict each other. Team is the name of a worker's team, if the
// command line has one.
func CheckFlags(c *cli.CLI, team string) error {
	switch {
	case team != "" && c.Config != "":
		return errors.New("--team and --config exclude each other; leave one out")
	case len(c.Models) > 0 && (c.Config != "" || team != ""):
		return errors.New("--model excludes --config and --team, which have models of their own; leave one out")
	case len(c.Models) == 0 && c.Agents > 0:
		return errors.New("--agents is the size of a team of one model; name that with --model [KIND:]NAME")
	}
	return nil
}

// Load reads the team of --config, or else makes that of --model, or else reads that of
// ./conclave.yaml with the user's consent, or else returns the built-in one. With offline the team
// uses the built-in model. Source names the team's origin.
func Load(c *cli.CLI, reach config.Reach, offline bool) (team config.Team, source string, err error) {
	if err = CheckFlags(c, ""); err != nil {
		return team, "", err
	}
	from, data := Choose(c), []byte{}
	if from.File == "" {
		team, source, err = buildTeam(c, worker.Models{}, reach)
	} else {
		team, source, data, err = readTeam(from.File, reach)
		if shell := config.Shell(c.Shell); err == nil && shell != "" && shell != config.AutoShell {
			team = team.WithShell(shell)
		}
	}
	if err == nil {
		team, err = from.admitTeam(c, data, team, offline)
	}
	return team, source, err
}

// buildTeam returns the team of a command without a file, from its flags: that of --model, or else
// the built-in one. At knows the keys.
func buildTeam(c *cli.CLI, at worker.Models, reach config.Reach) (team config.Team, source string, err error) {
	team, source = config.Default(), "the built-in team"
	if len(c.Models) > 0 {
		kind := config.OpenAI
		if reach == config.Local { // a cluster's workers have other keys
			kind = at.UsualType()
		}
		var backends []config.Backend
		backends, err = config.ParseModels(c.Models, c.Agents, reach, kind)
		team, source = config.TeamOf(backends), "--model"
	}
	if c.Shell != "" {
		team = team.WithShell(config.Shell(c.Shell))
	}
	return team, source, err
}

// ShellFlags adds --shell and --no-shell to a command; whose names the agents that they are for.
func ShellFlags(c *cli.CLI, set *pflag.FlagSet, whose string) {
	for _, f := range []struct{ name, usage, shell string }{
		{"shell", "let " + whose + " run commands; without a sandbox nothing starts (default with --base and no configuration: where there is one)", "true"},
		{"no-shell", "do not let " + whose + " run commands", "false"},
	} {
		set.BoolFunc(f.name, f.usage, func(value string) error {
			if value != "true" || c.Shell != "" && c.Shell != f.shell {
				return errors.New("--shell and --no-shell exclude each other and take no value")
			}
			c.Shell = f.shell
			return nil
		})
	}
}

// PreferShell gives a team without a file that works on a base a shell where commands are confined, unless
// the command line says otherwise.
func PreferShell(c *cli.CLI, based bool) {
	if based && c.Shell == "" {
		c.Shell = string(config.AutoShell)
	}
}

// RefuseShell returns an error if the command line chooses the shell of a team that it only names.
func RefuseShell(c *cli.CLI, source string) error {
	if c.Shell != "" && c.Shell != string(config.AutoShell) {
		return fmt.Errorf("--shell and --no-shell are for a team that this command defines; %s has tools.shell of its own", source)
	}
	return nil
}

// readTeam reads the team of a file and returns the bytes that it parsed. Without a file name it
// returns the built-in team.
func readTeam(file string, reach config.Reach) (team config.Team, source string, data []byte, err error) {
	if file == "" {
		return config.Default(), "the built-in team", nil, nil
	}
	if data, err = readConfig(file); err == nil {
		team, err = config.Parse(file, data, reach.Beside(file))
		err = hintAtImport(err, file, data)
	}
	return team, file, data, err
}

// Read reads and checks a team configuration in a file that the user named.
func Read(file string, reach config.Reach) (config.Team, error) {
	team, _, _, err := readTeam(file, reach)
	return team, err
}

// Local is like Load, for a worker on this machine. It checks that the team can start.
func Local(c *cli.CLI, w *Worker, offline bool) (team config.Team, source string, err error) {
	team, source, err = w.Load(c, config.Local, offline)
	if err == nil && !offline {
		team, err = w.Prepare(c, team)
	}
	return team, source, err
}

// Load is like the function Load. On this machine it finds keys, which decide the kind of a model
// that is named without one.
func (w *Worker) Load(c *cli.CLI, reach config.Reach, offline bool) (team config.Team, source string, err error) {
	if team, source, err = Load(c, reach, offline); err != nil || offline || reach != config.Local {
		return team, source, err
	}
	if err = w.FindKeys(c, team); err == nil && len(w.Models.Keys) > 0 && len(c.Models) > 0 {
		return buildTeam(c, w.Models, config.Local)
	}
	return team, source, err
}

// LoadSingle is like Load for a team of exactly one agent, which has no ID if it is that of --model.
// There is no built-in one.
func (w *Worker) LoadSingle(c *cli.CLI, offline bool) (config.Team, error) {
	if err := CheckFlags(c, ""); err != nil {
		return config.Team{}, err
	}
	from := Choose(c)
	switch {
	case from.File != "":
		return ReadSingle(c, from, offline)
	case len(c.Models) == 0:
		return config.Team{}, errors.New("a step needs a configuration with exactly one agent; name its file with --config FILE, or its model with --model NAME")
	}
	one := *c
	one.Agents = cmp.Or(c.Agents, 1)
	single, _, err := w.Load(&one, config.Local, offline)
	if err == nil && len(single.Agents) > 1 {
		err = errors.New("a step has one agent; leave --agents out")
	}
	if err == nil {
		single.Agents[0].ID = ""
	}
	return single, err
}

// Prepare finds the keys of a team and resolves its models. It returns an error if every session of
// the team would fail.
func (w *Worker) Prepare(c *cli.CLI, team config.Team) (config.Team, error) {
	if err := w.FindKeys(c, team); err != nil {
		return team, err
	}
	team = w.Resolve(team)
	return team, w.Startable(team)
}

// Resolve sets the models' addresses and key variables, so that they are the same for every
// worker of the data directory.
func (w *Worker) Resolve(team config.Team) config.Team {
	agents := make([]config.Agent, 0, len(team.Agents))
	for _, agent := range team.Agents {
		agent.Backend = w.Models.Resolve(agent.Backend)
		agents = append(agents, agent)
	}
	team.Agents = agents
	if evaluator := team.Orchestrator.Coordination.RoundEvaluator.Backend; evaluator != nil {
		resolved := w.Models.Resolve(*evaluator)
		team.Orchestrator.Coordination.RoundEvaluator.Backend = &resolved
	}
	if judge := team.Orchestrator.AgreeJudge.Backend; judge != nil {
		resolved := w.Models.Resolve(*judge)
		team.Orchestrator.AgreeJudge.Backend = &resolved
	}
	return team
}

// Describe lists agents and models on one line.
func Describe(team config.Team) string {
	var agents []string
	for _, a := range team.Models() {
		model := a.Backend.Model
		if a.Backend.IsOffline() {
			model = a.Backend.Type
		}
		if name, recorded := a.Backend.Params[config.RecordedMember].(string); recorded && a.Backend.Type == config.Recorded {
			model = "recorded answers of " + name
		}
		agents = append(agents, a.ID+" ("+model+")")
	}
	return strings.Join(agents, ", ")
}

// OfflineNote is printed wherever the built-in model answers.
const OfflineNote = "offline: the built-in deterministic model answers and votes; no language model is asked"

// RecordedNote is printed wherever recorded answers are used.
const RecordedNote = "recorded: the answers are recorded ones; no language model is asked"

// OfflineNoteOf returns the note on a team that asks no model server, or "" for others.
func OfflineNoteOf(team config.Team) string {
	return map[string]string{config.Offline: OfflineNote, config.Recorded: RecordedNote}[team.OfflineKind()]
}

// maxInputFile is the maximum size, in bytes, of a file named on the command line.
const maxInputFile = 1 << 20

// ReadFile reads a regular file named on the command line. It refuses pipes, which may never end.
func ReadFile(name string) ([]byte, error) { return ReadUpTo(maxInputFile, name) }

// ReadUpTo is ReadFile with a maximum size in bytes.
func ReadUpTo(most int64, name string) ([]byte, error) {
	if name == "-" {
		return nil, errors.New("- is not a file: standard input is not read; name a file")
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %s; name a regular file", name, kindOf(info.Mode()))
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes, the most that is read", name, most)
	}
	return data, nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// readConfig reads the file of a team configuration. Its error for a missing file suggests config
// init.
func readConfig(name string) ([]byte, error) {
	data, err := ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the team configuration: %w; `conclave config init %s` writes a starter file", err, text.ShellQuote(name))
	case err != nil:
		return nil, fmt.Errorf("read the team configuration: %w", err)
	}
	return data, nil
}

// ReadSingle reads and checks the configuration of exactly one agent on this machine, with the
// user's consent if the file was found. With offline the agent uses the built-in model.
func ReadSingle(c *cli.CLI, from Source, offline bool) (config.Team, error) {
	data, err := readConfig(from.File)
	if err != nil {
		return config.Team{}, err
	}
	single, err := config.ParseSingle(from.File, data)
	if err != nil {
		return single, hintAtImport(err, from.File, data)
	}
	return from.admitTeam(c, data, single, offline)
}

// ReadCriteria reads and checks a file of evaluation criteria and warns of ignored keys.
// Without a file name it returns no criteria.
func ReadCriteria(c *cli.CLI, file string) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	data, err := ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the evaluation criteria: %w", err)
	}
	_, warnings, err := config.ReviewCriteria(file, data)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		c.Warnf("%v", w)
	}
	if len(data) > workflows.MaxInput {
		return nil, fmt.Errorf("the evaluation criteria in %s have %d bytes, at most %d are accepted", file, len(data), workflows.MaxInput)
	}
	return data, nil
}

func registryDir(t cli.Target) string { return filepath.Join(t.DataDir, "teams") }

// Registry returns the registered teams of a local stack.
func Registry(t cli.Target) activities.Teams { return activities.Teams{Dir: registryDir(t)} }

func defaultFile(t cli.Target) string { return filepath.Join(registryDir(t), activities.DefaultTeam) }

// setDefault makes a team the default of the data directory; only dev and worker do. It does nothing for a cluster, whose
// workers have their own default.
func setDefault(t cli.Target, team config.Team) error {
	if t.Cluster {
		return nil
	}
	name, err := Registry(t).Register(team)
	if err != nil {
		return err
	}
	return Registry(t).SetDefault(name)
}

// Default returns the default team of the data directory, if one is set.
func Default(t cli.Target) (team config.Team, found bool, err error) {
	name, err := ReadFile(defaultFile(t))
	if errors.Is(err, fs.ErrNotExist) {
		return team, false, nil
	}
	var data []byte
	if err == nil {
		data, err = ReadFile(filepath.Join(registryDir(t), filepath.Base(strings.TrimSpace(string(name)))+".json"))
	}
	if err == nil {
		team, err = config.Parse("its file", data, config.Local)
	}
	if err != nil {
		return config.Team{}, false, fmt.Errorf("read the default team of %s: %w; `conclave dev` sets it again", t.DataDir, err)
	}
	return team, true, nil
}

// defaultForOthers returns the default team of a worker that a command runs for its own
// session. It is that of the data directory, or else that of an invocation without
// --config, but never that of --config. defaultForOthers asks for no consent. The zero value
// means that there is no usable default.
func defaultForOthers(c *cli.CLI, t cli.Target) config.Team {
	team, ok, err := Default(t)
	if err == nil && !ok {
		var data []byte
		if team, _, data, err = readTeam(foundSource().File, config.Local); err == nil {
			if untrusted := checkTrust(TrustedFile{Name: ProjectFile, Content: data, Team: team}, TrustDemands(team)); untrusted != nil {
				err = fmt.Errorf("%s was found, not named, and is not trusted; %s", untrusted.file, untrusted.Remedy())
			}
		}
		team = (&Worker{}).Resolve(team)
	}
	if err != nil {
		c.Infof("warning: this worker has no default team for sessions that name none: %v", err)
		return config.Team{}
	}
	return team
}

func importCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Translate a team configuration of MassGen",
		Long: "Translate a team configuration of MassGen, in YAML or JSON. The team goes to standard output; standard error has a sentence " +
			"for every key that was moved, changed or left out. Backends become types or addresses of the Chat Completions API, MCP servers " +
			"move to their agents, and IDs become legal. Nothing is started, and no variable is read.",
		Example: `  conclave config import massgen.yaml > conclave.yaml
  conclave config import massgen.yaml > conclave.yaml && conclave run "your question"
  conclave config import --json massgen.yaml | jq .notes`,
		Args: cli.Arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return translateFile(c, args[0]) },
	}
}

// hintAtImport adds the command that translates a file to the file's error if it looks
// like a MassGen configuration.
func hintAtImport(err error, file string, data []byte) error {
	if err == nil || !massgen.Recognize(data) {
		return err
	}
	to := "conclave.yaml"
	if filepath.Base(file) == to {
		to = "team.yaml" // the shell would empty the file before it is read
	}
	return fmt.Errorf("%w\n%s looks like a configuration of MassGen; `conclave config import %s > %s` translates it", err, file, text.ShellQuote(file), to)
}

// imported is the output of `config import --json`.
type imported struct {
	File  string         `json:"file"`
	Team  any            `json:"team"`
	Notes []massgen.Note `json:"notes"` // empty, not null, without any
}

func translateFile(c *cli.CLI, file string) error {
	data, err := ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the configuration to translate: %w", err)
	}
	t, err := massgen.Import("the translation", data)
	if err != nil {
		return fmt.Errorf("translate %s: %w", file, err)
	}
	if err := printTranslation(c, file, t); err != nil {
		return err
	}
	if t.Invalid != nil {
		return fmt.Errorf("the translation of %s was printed and still needs changes:\n%w", file, t.Invalid)
	}
	return nil
}

func printTranslation(c *cli.CLI, file string, t massgen.Translation) error {
	if c.Scripted() {
		var team any
		if err := yaml.Load(t.YAML, &team); err != nil {
			return fmt.Errorf("read the translation of %s: %w", file, err)
		}
		return c.PrintJSON(imported{File: file, Team: team, Notes: append([]massgen.Note{}, t.Notes...)})
	}
	for _, n := range t.Notes {
		where := file
		if n.Line > 0 {
			where = fmt.Sprintf("%s:%d", file, n.Line)
		}
		c.Infof("%s: %s", where, n)
	}
	_, err := fmt.Fprintf(c.Stdout, "# Translated from %q, a configuration of MassGen.\n%s", file, t.YAML)
	return err
}
