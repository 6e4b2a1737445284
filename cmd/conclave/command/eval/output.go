package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/engine/eval"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
)

// Files of an output directory.
const (
	settingsFile = "eval.json"
	samplesFile  = "samples.jsonl"
	summaryFile  = "summary.json"
	pageFile     = "index.html"
	lockFile     = ".lock"
	pagesDir     = "sessions"
)

// settings are the inputs that produced the samples of a directory.
type settings struct {
	ID        string   `json:"id"`
	Data      string   `json:"data"`
	DataHash  string   `json:"data_sha256"`
	Team      string   `json:"team"` // hash of its configuration
	Source    string   `json:"source"`
	Scorer    string   `json:"scorer"`
	Arms      []string `json:"arms"` // arms of the last run, in order
	Epochs    int      `json:"epochs"`
	Questions int      `json:"questions"`
	Version   string   `json:"conclave"`
	Identity  string   `json:"identity,omitempty"` // hash by which a calibration knows the team
	Offline   string   `json:"offline,omitempty"`  // says that the built-in model answered

	// Others has the hashes of the teams of other arms and of the grader.
	Others map[string]string `json:"others,omitempty"`
}

func (s settings) parseArms() ([]eval.Arm, error) { return eval.ParseArms(strings.Join(s.Arms, ",")) }

// output is the directory of an evaluation. It is safe for concurrent use.
type output struct {
	dir      string
	settings settings
	lock     *os.File

	mu      sync.Mutex
	file    *os.File
	samples []eval.Sample
	known   map[eval.Key]bool
}

// openOutput prepares the directory for samples with these settings and reads the existing samples.
func openOutput(dir string, s settings) (*output, error) {
	if err := os.MkdirAll(filepath.Join(dir, pagesDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of --out: %w", err)
	}
	lock, err := filelock.Try(filepath.Join(dir, lockFile), filelock.Exclusive)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if lock == nil {
		return nil, fmt.Errorf("another eval run writes to %s; wait for it, or choose another --out", dir)
	}
	o, err := readDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		o, err = &output{dir: dir}, nil
	}
	if err == nil {
		err = o.adoptSettings(s)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	o.lock = lock
	return o, nil
}

// adoptSettings opens the samples file for appending. It refuses samples produced with other settings.
func (o *output) adoptSettings(s settings) error {
	was := o.settings
	switch {
	case was.ID == "":
	case was.ID != s.ID:
		return fmt.Errorf("%s belongs to the evaluation %s; choose another --out, or --id %s", o.dir, was.ID, was.ID)
	default:
		if err := s.checkIdentity(o.dir, was.identityHashes()); err != nil {
			return err
		}
	}
	if earlier := maps.Clone(was.Others); earlier != nil {
		maps.Copy(earlier, s.Others)
		s.Others = earlier
	}
	for _, arm := range was.Arms {
		if !slices.Contains(s.Arms, arm) {
			s.Arms = append(s.Arms, arm) // an arm of an earlier run
		}
	}
	o.settings, o.known = s, map[eval.Key]bool{}
	for _, sample := range o.samples {
		o.known[sample.Key()] = true
	}
	if err := o.writeJSON(settingsFile, s); err != nil {
		return err
	}
	// Rewriting the file drops a truncated last line.
	var whole []byte
	for _, sample := range o.samples {
		line, err := json.Marshal(sample)
		if err != nil {
			return fmt.Errorf("encode a sample: %w", err)
		}
		whole = append(append(whole, line...), '\n')
	}
	if err := o.writeFile(samplesFile, whole); err != nil {
		return err
	}
	var err error
	if o.file, err = os.OpenFile(filepath.Join(o.dir, samplesFile), os.O_APPEND|os.O_WRONLY, 0o644); err != nil { //nolint:gosec // results are meant to be shared
		return fmt.Errorf("write the samples: %w", err)
	}
	return nil
}

func readEvaluation(of string) (*output, error) {
	o, err := readDir(of)
	if errors.Is(err, fs.ErrNotExist) {
		return readDir("eval-" + of)
	}
	return o, err
}

func readDir(dir string) (*output, error) {
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return nil, fmt.Errorf("read the evaluation: %w", err)
	}
	o := &output{dir: dir}
	if err := json.Unmarshal(data, &o.settings); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, settingsFile), err)
	}
	samples := filepath.Join(dir, samplesFile)
	if data, err = os.ReadFile(samples); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the samples: %w", err)
	}
	if o.samples, err = eval.ReadSamples(data); err != nil {
		return nil, fmt.Errorf("read %s: %w", samples, err)
	}
	return o, nil
}

func (o *output) hasOutcome(k eval.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[k]
}

// addSample appends an outcome and syncs it to disk.
func (o *output) addSample(s eval.Sample) error {
	line, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode a sample: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the samples: %w", err)
	}
	if err := o.file.Sync(); err != nil {
		return fmt.Errorf("write the samples: %w", err)
	}
	o.samples, o.known[s.Key()] = append(o.samples, s), true
	return nil
}

func (o *output) writeReport() (eval.Summary, error) {
	arms, err := o.settings.parseArms()
	if err != nil {
		return eval.Summary{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := eval.Summarize(o.samples, arms)
	if err := o.writeJSON(summaryFile, s); err != nil {
		return s, err
	}
	html, err := drawIndex(o.settings, s, o.samples, o.sessionPages())
	if err == nil {
		err = o.writeFile(pageFile, html)
	}
	return s, err
}

func (o *output) sessionPages() map[string]bool {
	there := map[string]bool{}
	entries, _ := os.ReadDir(filepath.Join(o.dir, pagesDir)) // without a page there is no link
	for _, e := range entries {
		there[e.Name()] = true
	}
	return there
}

func (o *output) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return o.writeFile(name, append(data, '\n'))
}

// writeFile replaces a file as a whole, so that a kill leaves the old one or the new one.
func (o *output) writeFile(name string, data []byte) error {
	file := filepath.Join(o.dir, name)
	err := os.WriteFile(file+".new", data, 0o644) //nolint:gosec // results are meant to be shared
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (o *output) close() {
	if o.file != nil {
		_ = o.file.Close()
	}
	if o.lock != nil {
		_ = o.lock.Close()
	}
}

func printReport(c *cli.CLI, of, skills string) error {
	o, err := readEvaluation(of)
	if err != nil {
		return fmt.Errorf("%w; name the ID or the directory of an evaluation", err)
	}
	if len(o.samples) == 0 {
		return cli.Exitf(cli.ExitNoAnswer, "the evaluation %s has no outcome yet", of)
	}
	s, err := o.writeReport()
	if err == nil && skills != "" {
		err = o.writeSkills(c, s.Replay, skills)
	}
	if err != nil {
		return err
	}
	return printSummary(c, s)
}

// writeSkills sets the skill of each agent in a team file, which is a copy of the evaluated one if it
// does not exist.
func (o *output) writeSkills(c *cli.CLI, r *eval.Replay, file string) error {
	if r == nil {
		return errors.New("--write-skill: the evaluation has no sessions of the arm team in which every agent answered by itself")
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = os.ReadFile(o.settings.Source)
	}
	var document yaml.Node
	if err = cmp.Or(err, yaml.Load(data, &document)); err != nil || len(document.Content) == 0 {
		return fmt.Errorf("--write-skill: read the team of %s: %w; name its file", file, err)
	}
	agents, _ := config.Find(document.Content[0], "agents")
	for _, m := range r.Members {
		at := slices.IndexFunc(agents.Content, func(agent *yaml.Node) bool { id := config.Lookup(agent, "id"); return id != nil && id.Value == m.Name })
		if at < 0 {
			return fmt.Errorf("--write-skill: %s has no agent %s; name the file of the evaluated team", file, m.Name)
		}
		value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: fmt.Sprint(m.Accuracy)}
		if agents.Content[at].Style&yaml.FlowStyle == 0 {
			value.LineComment = fmt.Sprintf("# of %d questions in evaluation %s", r.Questions, o.settings.ID)
		}
		config.SetEntry(agents.Content[at], "skill", value)
	}
	if data, err = yaml.Dump(&document, yaml.WithIndent(2), yaml.WithLineWidth(-1)); err == nil {
		err = os.WriteFile(file, data, 0o644) //nolint:gosec // a configuration has no secrets
	}
	if err != nil {
		return fmt.Errorf("--write-skill: %w", err)
	}
	c.Infof("%s has the skill of each agent, from %s", file, cli.Plural(r.Questions, "question"))
	return nil
}

// comparison is the JSON output of compare.
type comparison struct {
	A     string      `json:"a"`
	B     string      `json:"b"`
	Pairs []eval.Pair `json:"pairs"` // one pair for each arm, b less a
}

func compareEvaluations(c *cli.CLI, a, b string) error {
	first, err := readEvaluation(a)
	second, errB := readEvaluation(b)
	if err = errors.Join(err, errB); err != nil {
		return fmt.Errorf("%w; name the IDs or the directories of two evaluations", err)
	}
	if first.settings.DataHash != second.settings.DataHash {
		c.Warnf("the two evaluations are of different files of questions; questions with the same id are compared")
	}
	arms, err := second.settings.parseArms()
	if err != nil {
		return err
	}
	result := comparison{A: a, B: b, Pairs: eval.Across(first.samples, second.samples, arms)}
	if len(result.Pairs) == 0 {
		return cli.Exitf(cli.ExitNoAnswer, "%s and %s have no arm with the same questions", a, b)
	}
	if c.Scripted() {
		return c.PrintJSON(result)
	}
	for i, p := range result.Pairs {
		result.Pairs[i].A, result.Pairs[i].B = fmt.Sprintf("%s of %s", p.A, b), a
	}
	return c.Print(cli.Table(pairTable(result.Pairs)))
}

// identityHashes has the hashes of everything on which the outcomes of an evaluation depend.
func (s settings) identityHashes() map[string]string {
	parts := maps.Clone(s.Others)
	if parts == nil {
		parts = map[string]string{}
	}
	parts["data"], parts["team"], parts["scorer"] = s.DataHash, s.Team, s.Scorer
	return parts
}

// checkIdentity refuses earlier outcomes in a place if a part of the identity has changed since.
func (s settings) checkIdentity(place string, was map[string]string) error {
	parts := s.identityHashes()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if hash, known := was[name]; known && hash != parts[name] {
			return fmt.Errorf("%s has outcomes with another %s; choose another --id", place, namePart(name))
		}
	}
	return nil
}

func namePart(part string) string {
	switch part {
	case "data":
		return "file of questions"
	case "team", "scorer", "grader":
		return part
	}
	return "team in the arm " + part
}

// claimID reserves the ID of the evaluation in the bucket for its identity, because sessions with
// this ID are joined. Arms and a grader can be added later.
func (s settings) claimID(ctx context.Context, store artifact.Store) error {
	was := map[string]string{}
	for name, hash := range s.identityHashes() {
		key := artifact.EvaluationKey(s.ID, name)
		err := artifact.CreateJSON(ctx, store, key, hash)
		if errors.Is(err, artifact.ErrExists) {
			was[name], err = artifact.ReadJSON[string](ctx, store, key)
		}
		if err != nil {
			return fmt.Errorf("reserve the ID %s: %w", s.ID, err)
		}
	}
	return s.checkIdentity("the evaluation "+s.ID+" of this bucket", was)
}
