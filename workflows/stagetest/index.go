package stagetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"

	"conclave/workflows/drive"
)

// Indexed registers search attributes in the stage's namespace. It returns the upserts that follow,
// each as a line of NAME=VALUE.
func (s *Stage) Indexed(names ...string) *[]string {
	s.Attributes = names
	var upserts []string
	s.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Run(func(args mock.Arguments) {
		var all []string
		for key, value := range args.Get(0).(temporal.SearchAttributes).GetUntypedValues() {
			all = append(all, fmt.Sprintf("%s=%v", strings.TrimPrefix(key.GetName(), "Conclave"), value))
		}
		slices.Sort(all)
		upserts = append(upserts, strings.Join(all, " "))
	}).Maybe()
	return &upserts
}

// EveryAttribute returns the names of all search attributes.
func EveryAttribute() []string { return slices.Collect(maps.Keys(drive.Attributes())) }
