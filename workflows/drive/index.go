package drive

import (
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/llm"
)

// Search attributes of all products' workflows.
const (
	AttributeStatus = "ConclaveStatus"  // running, or how the workflow ended
	AttributeTeam   = "ConclaveTeam"    // name of the operator's team
	AttributeWinner = "ConclaveWinner"  // ID of the agent whose answer won
	AttributeKind   = "ConclaveKind"    // session, pipeline or scenario
	AttributeCost   = "ConclaveCostUsd" // set at the end, unless a price is unknown
)

// Attributes returns the search attributes and their types.
func Attributes() map[string]enumspb.IndexedValueType {
	const keyword = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	return map[string]enumspb.IndexedValueType{
		AttributeStatus: keyword, AttributeTeam: keyword, AttributeWinner: keyword, AttributeKind: keyword,
		AttributeCost: enumspb.INDEXED_VALUE_TYPE_DOUBLE,
	}
}

// Values of AttributeKind.
const (
	KindSession  = "session"
	KindPipeline = "pipeline"
	KindScenario = "scenario"
)

// Index sets the search attributes of a workflow at its beginning and at its end, because each
// update adds an event to the history. It only sets those that exist in the namespace: any other
// would make workflow tasks fail until it is registered.
type Index struct {
	Kind, Team string
	Registered []string // registered attributes, as the preparing worker found them
}

// Begin sets the attributes of a running workflow.
func (x Index) Begin(ctx workflow.Context) {
	x.set(ctx, map[string]string{AttributeKind: x.Kind, AttributeTeam: x.Team, AttributeStatus: Running}, nil)
}

// End sets the attributes of a workflow that has ended.
func (x Index) End(ctx workflow.Context, status, winner string, spent llm.Usage) {
	x.set(ctx, map[string]string{AttributeStatus: status, AttributeWinner: winner}, spent.TotalUSD)
}

// set upserts the non-empty values in one event.
func (x Index) set(ctx workflow.Context, keywords map[string]string, cost *float64) {
	var updates []temporal.SearchAttributeUpdate
	for _, name := range slices.Sorted(slices.Values(x.Registered)) {
		switch value := keywords[name]; {
		case value != "":
			updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(value))
		case name == AttributeCost && cost != nil:
			updates = append(updates, temporal.NewSearchAttributeKeyFloat64(name).ValueSet(*cost))
		}
	}
	if len(updates) == 0 {
		return
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Error("the search attributes could not be set", "error", err)
	}
}
