package attack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
)

// judgeCommand makes this binary a judge, in the directory and at the level of its
// arguments: the tests start it as another user.
const judgeCommand = "__judge"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case attack.ChildCommand:
			os.Exit(attack.RunChild(os.Args[2:], os.Stdin, os.Stdout))
		case judgeCommand:
			os.Exit(judge(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// judged is what a judge prints.
type judged struct {
	Host    sandbox.Host
	Results []attack.Result
}

func judge(args []string) int {
	ctx := context.Background()
	j := judged{Host: sandbox.Probe(ctx)}
	var err error
	j.Results, err = attack.Run(ctx, attack.Options{Dir: args[0], Level: sandbox.Level(args[1]), Host: j.Host, Only: args[2:]})
	var less *sandbox.LevelError
	if err == nil || errors.As(err, &less) {
		err = json.NewEncoder(os.Stdout).Encode(j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
