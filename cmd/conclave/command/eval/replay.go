package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/eval"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
)

// recordedTeam has the flags that choose a team of recorded members.
type recordedTeam struct {
	members []string
}

func (f *recordedTeam) addTo(set *pflag.FlagSet) {
	set.SortFlags = false
	set.StringSliceVar(&f.members, "members", nil, "the team's `MEMBERS` of DATA, in configured order (default those of --config, else all)")
}

// replayFlags are the flags of eval replay.
type replayFlags struct {
	recordedTeam
	triples bool
	sweep   string
	out     string
}

func replayCommand(c *cli.CLI) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay [flags] DATA",
		Short: "Measure a team on recorded answers, without models",
		Long: `Play a session of a team for every question of DATA by the rules of the core, with the
answers that its members have given before: no model is asked, and 12,000 questions take
seconds. DATA has JSON lines with answers, an object of texts by member, or is a table of
letters (.tsv, .tsv.gz) with the columns question_id, category, answer, options and one
for each member, in which - is no answer.

Without --config the team has the default settings, and its members vote for their own
answers. With --config the agents have backends of type recorded, or --members names the
members. The report has the accuracy of members and team with intervals, the exact tests
of all pairs, the share of questions that some member gets right, the effect of the order
of the file, calls a question, the curve of refusals, and advice from 100 questions on.`,
		Example: `  conclave eval replay answers.tsv.gz --members gemma,phi,qwen
  conclave eval replay answers.jsonl --config team.yaml --sweep team_size.start=null,2
  conclave eval replay answers.tsv.gz --all-triples --out triples`,
		Args: cli.Arguments("DATA"),
		RunE: func(_ *cobra.Command, args []string) error { return replayData(c, f, args[0]) },
	}
	f.addTo(cmd.Flags())
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

func replayData(c *cli.CLI, f replayFlags, file string) error {
	recording, err := readRecording(file)
	if err != nil {
		return err
	}
	if f.triples && len(f.members) == 0 {
		f.members = recording.Members[:min(3, len(recording.Members))]
	}
	team, err := f.choose(c, recording, file)
	if err != nil {
		return err
	}
	out := replayed{Data: file, Note: teams.RecordedNote}
	c.Infof("%s", out.Note)
	words, swept, err := sweepTeam(team, f.sweep)
	if err != nil {
		return err
	}
	for i, t := range swept {
		lineup, err := lineupOf(recording, t, f.members)
		if err != nil {
			return err
		}
		player := eval.NewReplayer(recording, t.Orchestrator.Agree, digestOf)
		for _, seats := range f.lineups(recording, lineup.Seats) {
			lineup.Seats = seats
			r := player.Replay(lineup)
			r.Settings = words[i]
			out.Replays = append(out.Replays, r)
		}
	}
	if out.Replay = out.Replays[0]; len(out.Replays) == 1 {
		out.Replays = nil
	}
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return fmt.Errorf("make the directory of --out: %w", err)
		}
		if err := (&output{dir: f.out}).writeJSON(summaryFile, out); err != nil {
			return err
		}
	}
	if c.Scripted() {
		return c.PrintJSON(out)
	}
	return c.Print(out.text())
}

func readRecording(file string) (*eval.Recording, error) {
	data, err := teams.ReadUpTo(maxData, file)
	if err != nil {
		return nil, fmt.Errorf("read the recorded answers: %w", err)
	}
	recording, err := eval.ReadRecording(file, data, "")
	if err != nil {
		return nil, fmt.Errorf("read the recorded answers of %s: %w", file, err)
	}
	return recording, nil
}

func digestOf(text string) coordination.Digest {
	d, _ := session.DigestOf(text, artifact.Change{}, "") // fails for checks among files only
	return d
}

// choose returns the team of --config, or one of the default settings, with the members of --members if
// they are given.
func (f recordedTeam) choose(c *cli.CLI, r *eval.Recording, file string) (team config.Team, err error) {
	members := f.members
	if c.Config == "" {
		team = config.Defaults[config.Team]()
		if len(members) == 0 {
			members = r.Members
		}
	} else if team, _, err = teams.Load(c, config.Local, false); err != nil {
		return team, err
	}
	if len(members) > len(letters) {
		return team, fmt.Errorf("%s has %d members, and a team at most %d; choose some with --members, or --all-triples", file, len(members), len(letters))
	}
	if len(members) > 0 {
		team.Agents = nil
	}
	for i, name := range members {
		if _, err := r.Member(name); err != nil || slices.Contains(members[:i], name) {
			return team, fmt.Errorf("--members: %w", errors.Join(err, map[bool]error{true: fmt.Errorf("%s is named twice", name)}[err == nil]))
		}
		a := config.Defaults[config.Agent]()
		a.ID = "agent_" + letters[i:i+1]
		a.Backend = config.Backend{Type: config.Recorded, Params: map[string]any{config.RecordedData: filepath.Base(file), config.RecordedMember: name}}
		team.Agents = append(team.Agents, a)
	}
	return team, nil
}

const letters = "abcdefghijklmnopqrstuvwxyz"

// lineupOf returns the lineup of a team. Its seats have the names of the members if these were given.
func lineupOf(r *eval.Recording, t config.Team, members []string) (l eval.Lineup, err error) {
	l.Config, l.Blind = t.Coordination(), !t.Orchestrator.ShowAgreement
	if l.Config.Mode == coordination.Decomposition || t.Orchestrator.Agree == config.JudgedEqual {
		return l, errors.New("recorded answers are compared as texts and answer the whole question; replay a team without coordination_mode: decomposition and agree: judge")
	}
	for i, a := range t.Agents {
		if a.Backend.Type != config.Recorded {
			return l, fmt.Errorf("agent %s has a backend of type %s; replay agents of type: recorded, or name the members of DATA with --members", a.ID, a.Backend.Type)
		}
		seat := eval.Seat{Agent: a.ID, Name: a.ID, Skill: a.Skill}
		if i < len(members) {
			seat.Name = members[i]
		}
		if seat.Member, err = r.Member(fmt.Sprint(a.Backend.Params[config.RecordedMember])); err != nil {
			return l, fmt.Errorf("agent %s: %w", a.ID, err)
		}
		params, err := json.Marshal(a.Backend.Params)
		if err == nil {
			err = json.Unmarshal(params, &seat.Voter)
		}
		if err != nil {
			return l, fmt.Errorf("agent %s: %w", a.ID, err)
		}
		seat.Voter = seat.Voter.OfRecorded()
		l.Seats = append(l.Seats, seat)
	}
	return l, nil
}

// lineups returns the seats of every team to replay.
func (f replayFlags) lineups(r *eval.Recording, seats []eval.Seat) (all [][]eval.Seat) {
	if !f.triples {
		return [][]eval.Seat{seats}
	}
	for k := range r.Members {
		for j := range k {
			for i := range j {
				three := slices.Clone(seats[:min(3, len(seats))])
				for place, member := range []int{i, j, k} {
					three[place].Member, three[place].Name = member, r.Members[member]
				}
				all = append(all, three)
			}
		}
	}
	return all
}

// sweepTeam returns the team with each value of a key of orchestrator, by its words.
func sweepTeam(team config.Team, sweep string) (words []string, swept []config.Team, err error) {
	key, list, given := strings.Cut(sweep, "=")
	if !given {
		return []string{""}, []config.Team{team}, nil
	}
	canonical, err := team.Canonical()
	for value := range strings.SplitSeq(list, ",") {
		root, section := map[string]any{}, map[string]any{}
		var scalar any
		err = errors.Join(err, json.Unmarshal(canonical, &root), yaml.Unmarshal([]byte(value), &scalar))
		path := strings.Split("orchestrator."+key, ".")
		for at, name := range path[:len(path)-1] {
			if at == 0 {
				section = root
			}
			inner, _ := section[name].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			section[name], section = inner, inner
		}
		section[path[len(path)-1]] = scalar
		changed, marshalErr := json.Marshal(root)
		t, parseErr := config.Parse("--sweep "+sweep, changed, config.Local)
		if err = errors.Join(err, marshalErr, parseErr); err != nil {
			return nil, nil, err
		}
		words, swept = append(words, key+"="+value), append(swept, t)
	}
	return words, swept, nil
}

// text returns the report for people: one team in full, or a line for each of several.
func (r replayed) text() string {
	if len(r.Replays) == 0 {
		return replayText(r.Replay)
	}
	var b strings.Builder
	b.WriteString("TEAM\tACCURACY\t95 %\tLESS BEST\tSPREAD\tCEILING\tBEST ORDER\tWORST\tCALLS\n")
	for _, x := range r.Replays {
		var names []string
		best := 0.0
		for _, m := range x.Members {
			names, best = append(names, m.Name), max(best, m.Accuracy.Accuracy)
		}
		if x.Settings != "" {
			names = []string{x.Settings}
		}
		fmt.Fprintf(&b, "%s\t%.3f\t%.3f to %.3f\t%+.1f\t%.1f\t%.3f\t%.3f\t%.3f\t%.2f\n", strings.Join(names, ", "), x.Team.Accuracy, x.Team.CI95[0], x.Team.CI95[1],
			100*(x.Team.Accuracy-best), 100*x.Spread, x.Ceiling, x.Order.Best, x.Order.Worst, x.Calls)
	}
	return cli.Table(b.String())
}

func replayText(r eval.Replay) string {
	var b strings.Builder
	b.WriteString("WHO\tACCURACY\t95 %\n")
	for _, m := range append(slices.Clone(r.Members), eval.Named{Name: string(eval.Team), Accuracy: r.Team}) {
		fmt.Fprintf(&b, "%s\t%.3f\t%.3f to %.3f\n", m.Name, m.Accuracy.Accuracy, m.CI95[0], m.CI95[1])
	}
	var curve strings.Builder
	curve.WriteString("MIN_SUPPORT\tACTS ON\tRIGHT\n")
	for _, p := range r.Curve {
		fmt.Fprintf(&curve, "%.2f\t%.1f %%\t%.1f %%\n", p.MinSupport, 100*p.Acted, 100*p.Right)
	}
	told := fmt.Sprintf("%d questions · some member right: %.1f %% · members %.1f points apart · unanimous: %.1f %%, right %.1f %% of these · order of the file: %.3f to %.3f · %.2f calls a question\n",
		r.Questions, 100*r.Ceiling, 100*r.Spread, 100*r.Unanimous.Share, 100*r.Unanimous.Right, r.Order.Worst, r.Order.Best, r.Calls)
	for _, f := range r.CoFailure {
		told += fmt.Sprintf("both wrong: %s and %s %.1f %%\n", f.A, f.B, 100*f.Share)
	}
	for _, advice := range r.Advice {
		told += "advice: " + advice + "\n"
	}
	return cli.Table(b.String()) + "\n" + cli.Table(pairTable(r.Pairs)) + eval.Judged + "\n\n" + cli.Table(curve.String()) + "\n" + told
}

func calibrateCommand(c *cli.CLI) *cobra.Command {
	var f recordedTeam
	var out string
	cmd := &cobra.Command{
		Use:   "calibrate [flags] ID|DATA",
		Short: "Measure how often a team's decisions are right, for act_when",
		Long: `Write a calibration to --out: how often the decisions of a team were wrong, by the support
that they had. It is made from the evaluation ID, or from recorded answers DATA as eval
replay reads them. In a team file act_when: {wrong: 0.05, calibration: FILE} then
promises that of the decisions on which the team acts at most 5 % are wrong, with a
confidence of 95 % over the drawing of these questions; the others end undecided.`,
		Example: `  conclave eval calibrate 3f9a01bc --out calibration.json
  conclave eval calibrate answers.tsv.gz --config team.yaml --out calibration.json`,
		Args: cli.Arguments("ID|DATA"),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("--out is missing; name the file to write, such as calibration.json")
			}
			return calibrate(c, f, args[0], out)
		},
	}
	f.addTo(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "write the calibration to `FILE`")
	return cmd
}

func calibrate(c *cli.CLI, f recordedTeam, of, out string) error {
	decisions, identity, err := judgedOf(c, f, of)
	if err != nil {
		return err
	}
	calibration := coordination.Calibrate(decisions)
	calibration.Team, calibration.From = identity, of
	data, err := json.MarshalIndent(calibration, "", "  ")
	if err == nil {
		err = os.WriteFile(out, append(data, '\n'), 0o644) //nolint:gosec // it is meant to be shared
	}
	if err != nil {
		return fmt.Errorf("write the calibration: %w", err)
	}
	c.Infof("%s has the outcomes of %d questions, by the mean of %s", out, calibration.Questions, strings.Join(calibration.Parts, ", "))
	var b strings.Builder
	b.WriteString("WRONG\tACTS ON\n")
	for _, wrong := range []float64{0.01, 0.02, 0.05, 0.1, 0.15, 0.2} {
		threshold, err := calibration.Promise(wrong)
		told := fmt.Sprint(err)
		for _, l := range calibration.Levels {
			if err == nil && l.Score >= threshold.Least {
				told = fmt.Sprintf("%.1f %% of the questions", 100*float64(l.Acted)/float64(calibration.Questions))
			}
		}
		fmt.Fprintf(&b, "%g\t%s\n", wrong, told)
	}
	if c.Scripted() {
		return c.PrintJSON(calibration)
	}
	return c.Print(cli.Table(b.String()))
}

// judgedOf returns the decisions of an evaluation or of a replay, with the identity of the team.
func judgedOf(c *cli.CLI, f recordedTeam, of string) (decisions []coordination.Judged, identity string, err error) {
	o, err := readEvaluation(of)
	if errors.Is(err, fs.ErrNotExist) {
		recording, err := readRecording(of)
		if err != nil {
			return nil, "", fmt.Errorf("%w; name an evaluation or a file of recorded answers", err)
		}
		team, err := f.choose(c, recording, of)
		if err != nil {
			return nil, "", err
		}
		identity = team.Identity()
		lineup, err := lineupOf(recording, team, f.members)
		lineup.Config.MinSupport, lineup.Config.Promise = 0, nil
		if err != nil {
			return nil, "", err
		}
		c.Infof("%s", teams.RecordedNote)
		return eval.NewReplayer(recording, team.Orchestrator.Agree, digestOf).Judge(lineup), identity, nil
	}
	if err != nil {
		return nil, "", err
	}
	for _, s := range o.samples {
		switch {
		case s.Conduct == nil:
		case s.Failed == string(coordination.Undecided):
			return nil, "", fmt.Errorf("the team of %s leaves questions undecided; evaluate it without act_when, and calibrate that evaluation", of)
		default:
			decisions = append(decisions, coordination.Judged{Support: s.Conduct.Support, Right: s.Right()})
		}
	}
	if o.settings.Identity == "" || len(decisions) == 0 {
		return nil, "", fmt.Errorf("%s has no decisions of the arm team, or was made by an older version; run the evaluation with the arm team under another --id", of)
	}
	return decisions, o.settings.Identity, nil
}
