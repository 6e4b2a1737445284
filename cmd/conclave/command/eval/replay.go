package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/eval"
	"conclave/engine/session"
)

// recordedTeam has the flags of eval replay and eval calibrate, and the team that they name.
type recordedTeam struct {
	members    []string // empty for those of the team
	triples    bool
	sweep, out string
	recording  *eval.Recording
	team       config.Team
}

const membersUsage = "the team's `MEMBERS` of DATA, in configured order (default those of --config, else all)"

func replayCommand(c *cli.CLI) *cobra.Command {
	var f recordedTeam
	cmd := &cobra.Command{
		Use:   "replay [flags] DATA",
		Short: "Measure a team on recorded answers, without models",
		Long: `Decide every question of DATA by the rules of a team, with the answers that its members
have given before; no model is asked. DATA has JSON lines with answers, an object of texts
by member, or is a table of letters (.tsv, .tsv.gz) with the columns question_id, category,
answer, options and one for each member; - is no answer. Without --config the settings are
the defaults, and members vote for their own answers.`,
		Example: `  conclave eval replay answers.tsv.gz --members gemma,phi,qwen
  conclave eval replay answers.jsonl --config team.yaml --sweep team_size.start=null,2`,
		Args: cli.Arguments("DATA"),
		RunE: func(_ *cobra.Command, args []string) error { return f.replay(c, args[0]) },
	}
	cmd.Flags().StringSliceVar(&f.members, "members", nil, membersUsage)
	cmd.Flags().BoolVar(&f.triples, "all-triples", false, "replay every team of three members")
	cmd.Flags().StringVar(&f.sweep, "sweep", "", "replay with each value of a key of orchestrator: `KEY=V1,V2`")
	cmd.Flags().StringVar(&f.out, "out", "", "write summary.json to `DIR`")
	return cmd
}

// replayed is the summary.json of a replay.
type replayed struct {
	Data    string        `json:"data"`
	Note    string        `json:"note"`
	Replay  eval.Replay   `json:"replay"`            // of the first team
	Replays []eval.Replay `json:"replays,omitempty"` // of all teams, if there are several
}

func (f *recordedTeam) replay(c *cli.CLI, file string) error {
	err := f.read(c, file)
	if err != nil {
		return err
	}
	out := replayed{Data: file, Note: teams.RecordedNote}
	key, values, _ := strings.Cut(f.sweep, "=")
	for value := range strings.SplitSeq(values, ",") {
		team := f.team
		if f.sweep != "" {
			team, err = changeTeam(team, "orchestrator."+key, value)
		}
		lineup, wrong := f.lineup(team)
		if err = cmp.Or(err, wrong); err != nil {
			return err
		}
		player := eval.NewReplayer(f.recording, team.Orchestrator.Agree, session.DigestText)
		for _, lineup.Seats = range f.teamsOf(lineup.Seats) {
			r := player.Replay(lineup)
			r.Settings = strings.TrimSuffix(key+"="+value, "=")
			out.Replays = append(out.Replays, r)
		}
	}
	if out.Replay = out.Replays[0]; len(out.Replays) == 1 {
		out.Replays = nil
	}
	if f.out != "" {
		if err := errors.Join(os.MkdirAll(f.out, 0o755), (&output{dir: f.out}).writeJSON(summaryFile, out)); err != nil {
			return fmt.Errorf("write to --out: %w", err)
		}
	}
	if c.Scripted() {
		return c.PrintJSON(out)
	}
	return c.Print(out.text())
}

// read reads the recorded answers of a file and the team: that of --config, or one of the default settings,
// with the members of --members if they are given. With --all-triples these are the first three.
func (f *recordedTeam) read(c *cli.CLI, file string) error {
	data, err := teams.ReadUpTo(maxData, file)
	if err == nil {
		f.recording, err = eval.ReadRecording(file, data)
	}
	if err != nil {
		return fmt.Errorf("read the recorded answers of %s: %w", file, err)
	}
	c.Infof("%s", teams.RecordedNote)
	f.team = config.Defaults[config.Team]()
	if c.Config != "" {
		f.team, _, err = teams.Load(c, config.Local, false)
	} else if len(f.members) == 0 {
		f.members = f.recording.Members
	}
	if f.triples {
		f.members = f.recording.Members[:min(3, len(f.recording.Members))]
	}
	if err != nil || len(f.members) == 0 {
		return err
	}
	var backends []config.Backend
	for _, name := range f.members {
		params := map[string]any{config.RecordedData: filepath.Base(file), config.RecordedMember: name}
		backends = append(backends, config.Backend{Type: config.Recorded, Params: params})
	}
	f.team.Agents = config.TeamOf(backends).Agents
	canonical, err := f.team.Canonical()
	if err == nil {
		f.team, err = config.Parse("members", canonical, config.Local)
	}
	if err != nil {
		return fmt.Errorf("%w; choose other members with --members, or --all-triples", err)
	}
	return nil
}

// changeTeam returns the team with another value of a key, in YAML.
func changeTeam(team config.Team, key, value string) (config.Team, error) {
	var given any
	root, path := map[string]any{}, strings.Split(key, ".")
	canonical, err := team.Canonical()
	if value == "" {
		err = errors.New("give values, as in team_size.start=null,2")
	}
	if err = errors.Join(err, json.Unmarshal(canonical, &root), yaml.Unmarshal([]byte(value), &given)); err != nil {
		return team, fmt.Errorf("%s=%s: %w", key, value, err)
	}
	in := root
	for _, name := range path[:len(path)-1] {
		inner, _ := in[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		in[name], in = inner, inner
	}
	in[path[len(path)-1]] = given
	changed, _ := json.Marshal(root) // fails for keys that are no texts, which no setting has
	return config.Parse(key+"="+value, changed, config.Local)
}

// lineup returns the lineup of a team of recorded members.
func (f *recordedTeam) lineup(t config.Team) (l eval.Lineup, err error) {
	l.Config, l.Blind = t.Coordination(), !t.Orchestrator.ShowAgreement
	if l.Config.Mode == coordination.Decomposition || t.Orchestrator.Agree == config.JudgedEqual {
		return l, errors.New("recorded answers are compared as texts and answer the whole question; replay a team without coordination_mode: decomposition and agree: judge")
	}
	for _, a := range t.Agents {
		if a.Backend.Type != config.Recorded {
			return l, fmt.Errorf("agent %s has a backend of type %s; replay agents of type recorded, or name the members of DATA with --members", a.ID, a.Backend.Type)
		}
		seat := eval.Seat{Agent: a.ID, Skill: a.Skill}
		seat.Member, err = f.recording.Member(fmt.Sprint(a.Backend.Params[config.RecordedMember]))
		params, wrong := json.Marshal(a.Backend.Params)
		if err = errors.Join(err, wrong, json.Unmarshal(params, &seat.Voter)); err != nil {
			return l, fmt.Errorf("agent %s: %w", a.ID, err)
		}
		l.Seats = append(l.Seats, seat)
	}
	return l, nil
}

// teamsOf returns the seats of every team to replay.
func (f *recordedTeam) teamsOf(seats []eval.Seat) (all [][]eval.Seat) {
	if !f.triples || len(seats) < 3 {
		return [][]eval.Seat{seats}
	}
	for k := range f.recording.Members {
		for j := range k {
			for i := range j {
				three := slices.Clone(seats)
				for place, member := range []int{i, j, k} {
					three[place].Member = member
				}
				all = append(all, three)
			}
		}
	}
	return all
}

// text returns the report for people: one team in full, or a line for each of several.
func (r replayed) text() string {
	if len(r.Replays) == 0 {
		return replayText(r.Replay)
	}
	var b strings.Builder
	b.WriteString("TEAM\tACCURACY\t95 %\tLESS BEST\tSPREAD\tCEILING\tBEST ORDER\tWORST\tCALLS\n")
	for _, x := range r.Replays {
		name, best := x.Settings, 0.0
		for _, m := range x.Members {
			if best = max(best, m.Accuracy); x.Settings == "" {
				name = strings.TrimPrefix(name+", "+m.Name, ", ")
			}
		}
		fmt.Fprintf(&b, "%s\t%.3f\t%.3f to %.3f\t%+.1f\t%.1f\t%.3f\t%.3f\t%.3f\t%.2f\n", name, x.Team.Accuracy, x.Team.CI95[0], x.Team.CI95[1],
			100*(x.Team.Accuracy-best), 100*x.Spread, x.Ceiling, x.Order.Best, x.Order.Worst, x.Calls)
	}
	return cli.Table(b.String())
}

func replayText(r eval.Replay) string {
	var who, curve, told strings.Builder
	who.WriteString("WHO\tACCURACY\t95 %\n")
	for _, m := range append(slices.Clone(r.Members), r.Team) {
		fmt.Fprintf(&who, "%s\t%.3f\t%.3f to %.3f\n", cmp.Or(m.Name, string(eval.Team)), m.Accuracy, m.CI95[0], m.CI95[1])
	}
	curve.WriteString("MIN_SUPPORT\tACTS ON\tRIGHT\n")
	for _, p := range r.Curve {
		fmt.Fprintf(&curve, "%.2f\t%.1f %%\t%.1f %%\n", p.MinSupport, 100*p.Acted, 100*p.Right)
	}
	fmt.Fprintf(&told, "%s: some member is right on %.1f %%; members are %.1f points apart; all agree on %.1f %%, and are right on %.1f %% of these;\nby the order of the file %.3f to %.3f; %.2f calls a question\n",
		cli.Plural(r.Questions, "question"), 100*r.Ceiling, 100*r.Spread, 100*r.Unanimous.Share, 100*r.Unanimous.Right, r.Order.Worst, r.Order.Best, r.Calls)
	for _, f := range r.CoFailure {
		fmt.Fprintf(&told, "%s and %s are both wrong on %.1f %%\n", f.A, f.B, 100*f.Share)
	}
	for _, advice := range r.Advice {
		told.WriteString("advice: " + advice + "\n")
	}
	return cli.Table(who.String()) + "\n" + cli.Table(pairTable(r.Pairs)) + eval.Judged + "\n\n" + cli.Table(curve.String()) + "\n" + told.String()
}

func calibrateCommand(c *cli.CLI) *cobra.Command {
	var f recordedTeam
	cmd := &cobra.Command{
		Use:   "calibrate [flags] ID|DATA",
		Short: "Measure how often a team's decisions are right, for act_when",
		Long: `Write how often a team's decisions were wrong, by their support: in the evaluation ID, or
on recorded answers DATA as for eval replay. In a team file act_when: {wrong: 0.05,
calibration: FILE} then promises that of the decisions on which the team acts at most
5 % are wrong, with a confidence of 95 % over the drawing of these questions; the others
end undecided.`,
		Example: `  conclave eval calibrate 3f9a01bc --out calibration.json`,
		Args:    cli.Arguments("ID|DATA"),
		RunE: func(_ *cobra.Command, args []string) error {
			decisions, identity, err := f.judge(c, args[0])
			if err != nil {
				return err
			}
			calibration := coordination.Calibrate(decisions)
			calibration.Team, calibration.From = identity, args[0]
			if err := (&output{}).writeJSON(f.out, calibration); err != nil {
				return err
			}
			return printCalibration(c, calibration, f.out)
		},
	}
	cmd.Flags().StringSliceVar(&f.members, "members", nil, membersUsage)
	cmd.Flags().StringVar(&f.out, "out", "calibration.json", "write the calibration to `FILE`")
	return cmd
}

func printCalibration(c *cli.CLI, of coordination.Calibration, out string) error {
	c.Infof("%s has the outcomes of %s, by the mean of %s", out, cli.Plural(of.Questions, "question"), strings.Join(of.Parts, ", "))
	if c.Scripted() {
		return c.PrintJSON(of)
	}
	var told strings.Builder
	for _, wrong := range []float64{0.01, 0.02, 0.05, 0.1, 0.2} {
		_, refused := of.Promise(wrong)
		fmt.Fprintf(&told, "wrong: %g – %v\n", wrong, cmp.Or(refused, errors.New("kept")))
	}
	return c.Print(told.String())
}

// judge returns the decisions of an evaluation or of a replay, with the identity of the team.
func (f *recordedTeam) judge(c *cli.CLI, of string) (decisions []coordination.Judged, identity string, err error) {
	if info, err := os.Stat(of); err == nil && info.Mode().IsRegular() {
		if err := f.read(c, of); err != nil {
			return nil, "", err
		}
		lineup, err := f.lineup(f.team)
		if err != nil {
			return nil, "", err
		}
		lineup.Config.MinSupport, lineup.Config.Promise = 0, nil
		return eval.NewReplayer(f.recording, f.team.Orchestrator.Agree, session.DigestText).Judge(lineup), f.team.Identity(), nil
	}
	o, err := readEvaluation(of)
	if err != nil {
		return nil, "", fmt.Errorf("%w; name an evaluation, or a file of recorded answers", err)
	}
	for _, s := range o.samples {
		if s.Failed == string(coordination.Undecided) {
			return nil, "", fmt.Errorf("the team of %s leaves questions undecided; evaluate it without act_when, and calibrate that evaluation", of)
		}
		if s.Conduct != nil {
			decisions = append(decisions, coordination.Judged{Support: s.Conduct.Support, Right: s.Right()})
		}
	}
	if o.settings.Identity == "" || len(decisions) == 0 {
		return nil, "", fmt.Errorf("%s has no decisions of the arm team with their support; run it again with that arm, under another --id", of)
	}
	return decisions, o.settings.Identity, nil
}
