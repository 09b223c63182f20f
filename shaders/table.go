package shaders

import "embed"

//go:embed *.h
var sources embed.FS

// Kernels is the table of all kernels. Values are [rows][width] float. A launch of
// an element-wise kernel covers Count elements, one per thread.
//
// The buffer rows has four ints per row of the batch: its position, the length of
// its sequence after the batch, the index in tables of its sequence's first page,
// and its sequence. The buffer grid holds the codebook of an IQ weight format, and
// is not read for other formats.
var Kernels = []Kernel{
	{
		Name: "unary", Files: []string{"elementwise.h", "unary.h"}, Group: 256, Params: UnaryParams{},
		Args: []Arg{{"x", "float", In}, {"y", "float", Out}},
	},
	{
		Name: "binary", Files: []string{"binary.h"}, Group: 256, Params: BinaryParams{},
		Args: []Arg{{"a", "float", In}, {"b", "float", In}, {"y", "float", Out}},
	},
	{
		Name: "glu", Files: []string{"elementwise.h", "glu.h"}, Group: 256, Params: GluParams{},
		Args: []Arg{{"gate", "float", In}, {"up", "float", In}, {"y", "float", Out}},
	},
	{
		Name: "affine", Files: []string{"affine.h"}, Group: 256, Params: AffineParams{},
		Args: []Arg{{"x", "float", In}, {"w", "float", In}, {"b", "float", In}, {"y", "float", Out}},
	},
	{
		Name: "temperature", Files: []string{"temperature.h"}, Group: 256, Params: TemperatureParams{},
		Args: []Arg{{"x", "float", In}, {"rows", "int", In}, {"y", "float", Out}},
	},
	{
		Name: "columns", Files: []string{"columns.h"}, Group: 256, Params: ColumnsParams{},
		Args: []Arg{{"x", "float", In}, {"y", "float", Out}},
	},
	{
		Name: "concat", Files: []string{"concat.h"}, Group: 256, Params: ConcatParams{},
		Args: []Arg{{"a", "float", In}, {"b", "float", In}, {"y", "float", Out}},
	},
	{
		Name: "gather", Files: []string{"gather.h"}, Group: 256, Params: GatherParams{},
		Args: []Arg{{"x", "float", In}, {"index", "int", In}, {"y", "float", Out}},
	},
	{
		Name: "pool", Files: []string{"pool.h"}, Group: 256, Params: PoolParams{},
		Args: []Arg{{"x", "float", In}, {"spans", "int", In}, {"y", "float", Out}},
	},
	{
		// grid: x = rows·width/group
		Name: "norm", Files: []string{"norm.h"}, Group: 128, Params: NormParams{},
		Args: []Arg{
			{"x", "float", In},
			{"r", "float", In}, // with Add
			{"w", "float", In},
			{"b", "float", In},
			{"sum", "float", Out}, // with Add
			{"y", "float", Out},
		},
	},
	{
		// one thread for each of the rows·heads·(HeadDim-HalfDim) items
		Name: "rope", Files: []string{"angle.h", "rope.h"}, Group: 256, Params: RopeParams{},
		Args: []Arg{{"x", "float", In}, {"rows", "int", In}, {"freqs", "float", In}, {"y", "float", Out}},
	},
	{
		// grid: x = rows; EXPERTS is the maximum number of experts, see
		// RouteExperts
		Name: "route", Files: []string{"route.h"}, Group: 32, Params: RouteParams{}, Constants: []string{"EXPERTS"},
		Args: []Arg{{"logits", "float", In}, {"bias", "float", In}, {"y", "float", Out}},
	},
	{
		Name: "expert_sum", Files: []string{"expert_sum.h"}, Group: 256, Params: ExpertSumParams{},
		Args: []Arg{{"x", "float", In}, {"route", "float", In}, {"y", "float", Out}},
	},
	{
		Name: "expert_scale", Files: []string{"expert_scale.h"}, Group: 256, Params: ExpertScaleParams{},
		Args: []Arg{{"x", "float", In}, {"route", "float", In}, {"w", "float", In}, {"y", "float", Out}},
	},
	{
		// grid: x = columns, y = spans; spans holds {first row, rows, begins,
		// slot}
		Name: "short_conv", Files: []string{"elementwise.h", "short_conv.h"}, Group: 64, Params: ShortConvParams{},
		Args: []Arg{
			{"x", "float", In},
			{"w", "float", In},
			{"bias", "float", In},
			{"spans", "int", In},
			{"state", "float", InOut},
			{"y", "float", Out},
		},
	},
	{
		// grid: x = value columns, y = value heads, z = spans
		Name: "delta_net", Files: []string{"delta_net.h"}, Group: 64, Params: DeltaNetParams{},
		Args: []Arg{
			{"q", "float", In},
			{"k", "float", In},
			{"v", "float", In},
			{"g", "float", In},
			{"beta", "float", In},
			{"spans", "int", In},
			{"state", "float", InOut},
			{"y", "float", Out},
		},
	},
	{
		// one thread for each of Count·ceil(Cols/8) groups; ids holds tokens,
		// positions or zeros
		Name: "embed", Files: []string{"weights.h", "embed.h"}, Group: 128, Params: EmbedParams{}, Constants: []string{"WEIGHT"},
		Args: []Arg{{"w", "uchar", In}, {"ids", "int", In}, {"grid", "uint", In}, {"y", "float", Out}},
	},
	{
		// grid: x = ceil(Rows/4), y = ceil(Batch/ROWS)
		Name: "matvec", Files: []string{"weights.h", "dot.h", "matvec.h"}, Group: 128, Params: MatvecParams{},
		Constants: []string{"WEIGHT", "ROWS"}, // ROWS from 1 to 8
		Args:      []Arg{{"w", "uchar", In}, {"x", "float", In}, {"bias", "float", In}, {"grid", "uint", In}, {"y", "float", Out}},
	},
	{
		// grid: x = ceil(Rows/64), y = ceil(Batch/32)
		Name: "matmul", Files: []string{"weights.h", "matrix8.h", "matmul.h"}, Group: 128, Resident: 5, Params: MatmulParams{},
		Constants: []string{"WEIGHT", "MMA"}, // MMA is 1 for devices that support the dialect's mma, 2 for those that support matrix8
		Args:      []Arg{{"w", "uchar", In}, {"x", "float", In}, {"bias", "float", In}, {"grid", "uint", In}, {"y", "float", Out}},
	},
	{
		// grid: x = ceil(Rows/4), y = rows of the batch·Used
		Name: "expert", Files: []string{"weights.h", "dot.h", "expert.h"}, Group: 128, Params: ExpertParams{},
		Constants: []string{"WEIGHT", "ROWS"}, // ROWS is 1
		Args: []Arg{
			{"w", "uchar", In},
			{"x", "float", In},
			{"route", "float", In},
			{"bias", "float", In},
			{"grid", "uint", In},
			{"y", "float", Out},
		},
	},
	{
		Name: "kv_level", Files: []string{"kv_level.h"}, Group: 256, Params: KvLevelParams{},
		Args: []Arg{
			{"x", "float", In}, {"rows", "int", In}, {"mean", "float", In}, {"gain", "float", In}, {"y", "float", Out},
		},
	},
	{
		// grid: heads by rows
		Name: "kv_shift", Files: []string{"temper.h", "kv_shift.h"}, Group: 32, Params: KvShiftParams{},
		Args: []Arg{{"x", "float", In}, {"rows", "int", In}, {"mean", "float", In}, {"y", "float", Out}},
	},
	{
		// grid: Launch.X by KV heads by rows
		Name: "kv_store", Files: []string{"form.h", "count.h", "cells.h", "kv_store.h"}, Group: 128, Params: KvStoreParams{},
		Constants: []string{"PACK"},
		Args:      []Arg{{"x", "float", In}, {"rows", "int", In}, {"tables", "int", In}, {"cache", "uchar", InOut}, {"counts", "uint", Sum}},
	},
	{
		// grid: Launch.X by KV heads by rows
		Name: "kv_encode", Group: 128, Resident: 8, Params: KvEncodeParams{},
		Files:     []string{"form.h", "rotate.h", "count.h", "cells.h", "stream.h", "kv_pack.h", "angle.h", "polar.h", "kv_encode.h"},
		Constants: []string{"RULE", "PACK", "BITS", "SIZE", "GROUP_BYTES", "TURNS", "RESIDUAL", "POLAR"},
		Args: []Arg{
			{"x", "float", In},
			{"rows", "int", In},
			{"tables", "int", In},
			{"form", "float", In},
			{"cache", "uchar", InOut},
			{"counts", "uint", Sum},
		},
	},
	{
		// grid: Launch.X by KV heads by rows
		Name: "kv_trellis", Group: 32, Params: KvTrellisParams{},
		Files:     []string{"form.h", "rotate.h", "count.h", "cells.h", "stream.h", "twofold.h", "trellis.h", "kv_trellis.h"},
		Constants: []string{"BITS", "SIZE", "TURNS"},
		Args: []Arg{
			{"x", "float", In},
			{"rows", "int", In},
			{"tables", "int", In},
			{"form", "float", In},
			{"cache", "uchar", InOut},
			{"counts", "uint", Sum},
		},
	},
	{
		// grid: Launch.X by KV heads by cells, which are 64 for each page
		Name: "kv_repack", Group: 32, Params: KvRepackParams{},
		Files:     []string{"form.h", "rotate.h", "exact.h", "count.h", "cells.h", "stream.h", "twofold.h", "trellis.h", "kv_repack.h"},
		Constants: []string{"BITS", "SIZE", "TURNS"},
		Args: []Arg{
			{"packs", "int", In},
			{"exact", "uchar", In},
			{"form", "float", In},
			{"mean", "float", In},
			{"gain", "float", In},
			{"cache", "uchar", InOut},
			{"counts", "uint", Sum},
		},
	},
	{
		// grid: Launch.X by heads by rows
		Name: "kv_query", Files: []string{"form.h", "rotate.h", "kv_query.h"}, Group: 128, Params: KvQueryParams{},
		Constants: []string{"SIZE", "TURNS", "RESIDUAL"},
		Args:      []Arg{{"x", "float", In}, {"form", "float", In}, {"y", "float", Out}, {"res", "float", Out}},
	},
	{
		// grid: Params.Parts by Attention.Slices by tiles
		Name: "attend", Files: []string{"form.h", "cut.h", "load_form.h", "exact.h", "temper.h", "count.h", "attend.h"}, Group: 128, Resident: 2, Params: AttendParams{},
		Constants: []string{
			"QUERIES", "LANES", "READERS", "K_PACK", "K_BITS", "K_AFFINE", "K_RES", "K_TAIL", "V_PACK", "V_BITS", "V_AFFINE", "V_TAIL",
			"EXACT",
		},
		Args: []Arg{
			{"q", "float", In},
			{"res", "float", In},
			{"rows", "int", In},
			{"tables", "int", In},
			{"tiles", "int", In},
			{"k_cache", "uchar", In},
			{"v_cache", "uchar", In},
			{"k_form", "float", In},
			{"v_form", "float", In},
			{"partial", "float", Out},
			{"counts", "uint", Sum},
			{"k_exact", "uchar", In},
			{"v_exact", "uchar", In},
			{"shift", "float", In},
		},
	},
	{
		// grid: heads by rows
		Name: "attend_combine", Files: []string{"form.h", "cut.h", "rotate.h", "attend_combine.h"}, Group: 128, Params: AttendCombineParams{},
		Constants: []string{"LANES", "TURNS"},
		Args: []Arg{
			{"partial", "float", In}, {"sinks", "float", In}, {"form", "float", In}, {"shift", "float", In}, {"y", "float", Out},
		},
	},
	{
		// grid: x = ceil(Width/TopStretch), y = rows
		Name: "top", Files: []string{"top.h"}, Group: 256, Params: TopParams{},
		Args: []Arg{{"x", "uint", In}, {"y", "uint", Out}},
	},
}
