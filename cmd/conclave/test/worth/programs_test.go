// Package worth measures what a team is worth, on recorded answers and programs of real models, whose
// licences are beside them in engine/eval/testdata/recorded.
//
// Its tests measure a sample; `make recorded` measures everything, which takes an hour, and writes the tables
// of docs/worth.md. page_test.go has the page, replay_test.go the comparison with a second implementation
// and the advice on questions that were held out, promise_test.go promises and skills on such questions,
// programs_test.go the programs that run in the sandbox, and stack_test.go sessions with all their activities.
package worth_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// recorded is the directory of the recorded data.
const recorded = "../../../../engine/eval/testdata/recorded/"

// kept returns the directory in which measurements are kept. Only `make recorded` names one: elsewhere
// tests measure a sample.
func kept() (dir string, all bool) {
	dir = os.Getenv("CONCLAVE_RECORDED")
	return dir, dir != ""
}

// task is a programming task with recorded programs and tests.
type task struct {
	ID       string   `json:"task_id"`
	Prompt   string   `json:"prompt"`
	Entry    string   `json:"entry_point"`
	Hidden   string   `json:"hidden_test"`
	Programs []string `json:"programs"`
	Tests    []string `json:"tests"`

	asserts  [][]string        // by batch
	verdicts map[string]string // by program and batch, a character for each assert: 1 if it passes
}

// hidden is the key of the hidden test among batches.
const hidden = "hidden"

func readTasks(t testing.TB) []*task {
	t.Helper()
	data, err := os.ReadFile(recorded + "humaneval-codegen16b.jsonl.gz")
	require.NoError(t, err)
	var tasks []*task
	for lines := json.NewDecoder(bytes.NewReader(unzip(t, data))); lines.More(); {
		one := &task{verdicts: map[string]string{}}
		require.NoError(t, lines.Decode(one))
		for i, p := range one.Programs {
			one.Programs[i] = one.Prompt + cutProgram(p)
		}
		for _, batch := range one.Tests {
			one.asserts = append(one.asserts, assertsOf(batch, one.Entry))
		}
		tasks = append(tasks, one)
	}
	return tasks
}

// runScript returns the lines that the second implementation, in another language, prints for its input.
func runScript(t testing.TB, in any) [][]byte {
	t.Helper()
	python, err := exec.LookPath("python3")
	if _, all := kept(); err != nil && !all {
		t.Skip("no python3")
	}
	require.NoError(t, err)
	given, err := json.Marshal(in)
	require.NoError(t, err)
	script := exec.Command(python, recorded+"replay.py")
	script.Stdin, script.Stderr = bytes.NewReader(given), os.Stderr
	out, err := script.Output()
	require.NoError(t, err)
	return bytes.Split(bytes.TrimSpace(out), []byte("\n"))
}

func unzip(t testing.TB, data []byte) []byte {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	data, err = io.ReadAll(zipped)
	require.NoError(t, err)
	return data
}

// cutProgram cuts a continuation at the first line that is neither indented nor empty.
func cutProgram(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && line[0] != ' ' && line[0] != '\t' {
			break
		}
		kept.WriteString(line)
	}
	return kept.String()
}

// maxAsserts is the number of checks that an answer brings.
const maxAsserts = 10

// assertsOf returns the asserts of a batch that name the function, as CodeT reads them.
func assertsOf(batch, entry string) []string {
	var asserts []string
	for part := range strings.SplitSeq(batch, "assert ") {
		if !strings.Contains(part, entry) || len(asserts) == maxAsserts {
			continue
		}
		text := "assert " + strings.TrimSpace(part)
		for _, stop := range []string{"\nclass", "\ndef", "\n#", "\nif", "\nprint"} {
			text, _, _ = strings.Cut(text, stop)
		}
		asserts = append(asserts, strings.TrimSpace(text))
	}
	return asserts
}

// program returns the index of the first program with the same text.
func (k *task) program(i int) int { return slices.Index(k.Programs, k.Programs[i]) }

// verdictOn returns the verdicts of a batch on a program.
func (k *task) verdictOn(program int, batch string) string {
	return k.verdicts[strconv.Itoa(k.program(program))+" "+batch]
}

func (k *task) isRight(program int) bool { return k.verdictOn(program, hidden) == "1" }

// runPairs runs the pairs of programs and batches in the sandbox whose verdicts are missing, and keeps
// them in dir.
func (k *task) runPairs(t testing.TB, dir string, programs []int) {
	t.Helper()
	file := filepath.Join(dir, strings.ReplaceAll(k.ID, "/", "-")+".json")
	data, err := os.ReadFile(file)
	if err == nil {
		require.NoError(t, json.Unmarshal(data, &k.verdicts))
	} else {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	in := struct {
		Programs map[string]string   `json:"programs"`
		Batches  map[string][]string `json:"batches"`
		Pairs    [][2]string         `json:"pairs"`
	}{map[string]string{}, map[string][]string{hidden: {k.Hidden + "\ncheck(" + k.Entry + ")\n"}}, nil}
	for i, asserts := range k.asserts {
		if len(asserts) > 0 {
			in.Batches[strconv.Itoa(i)] = asserts
		}
	}
	for _, p := range programs {
		key := strconv.Itoa(k.program(p))
		if in.Programs[key] != "" {
			continue
		}
		in.Programs[key] = k.Programs[p]
		for batch := range in.Batches {
			if k.verdicts[key+" "+batch] == "" {
				in.Pairs = append(in.Pairs, [2]string{key, batch})
			}
		}
	}
	if len(in.Pairs) == 0 {
		return
	}
	given, err := json.Marshal(in)
	require.NoError(t, err)
	for line := range bytes.Lines(confine(t, given)) {
		var pair [3]string
		require.NoError(t, json.Unmarshal(line, &pair))
		k.verdicts[pair[0]+" "+pair[1]] = pair[2]
	}
	for _, pair := range in.Pairs {
		require.NotEmpty(t, k.verdicts[pair[0]+" "+pair[1]], "%s %v", k.ID, pair)
	}
	if data, err = json.Marshal(k.verdicts); dir != "" {
		require.NoError(t, errors.Join(err, os.WriteFile(file+".new", data, 0o600), os.Rename(file+".new", file)))
	}
}

// confine runs testdata/pairs.py in the sandbox, at the level full or landlock, and returns its output.
func confine(t testing.TB, in []byte) []byte {
	t.Helper()
	host := sandbox.Probe(t.Context())
	if host.Level != sandbox.Full && host.Level != sandbox.Landlock {
		t.Skip("programs of models run in a sandbox of the level full or landlock only; this host offers " + string(host.Level))
	}
	script, err := os.ReadFile("testdata/pairs.py")
	require.NoError(t, err)
	work := t.TempDir()
	require.NoError(t, errors.Join(os.WriteFile(filepath.Join(work, "pairs.py"), script, 0o600), os.WriteFile(filepath.Join(work, "in.json"), in, 0o600)))
	box, err := sandbox.Open(sandbox.Options{Workspace: work, Temp: t.TempDir(), Level: host.Level, Host: host, Limits: sandbox.Limits{
		Time: time.Hour, Memory: 2 << 30, Processes: 64, Disk: 64 << 20, Files: 1000, Output: 64 << 20,
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, box.Close()) }()
	var out, told bytes.Buffer
	exit, err := box.Run(context.WithoutCancel(t.Context()), sandbox.Command{Args: []string{"sh", "-c", "/usr/bin/python3 pairs.py < in.json"}, Stdout: &out, Stderr: &told})
	require.NoError(t, err)
	require.Zero(t, exit.Code, "%+v %s", exit, told.String())
	return out.Bytes()
}
