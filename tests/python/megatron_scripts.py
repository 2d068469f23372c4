"""Scripts as users write them, in the manner of Megatron-LM's own examples."""

GPT = """#!/bin/bash
# Runs a 175B GPT model on 1024 GPUs
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
MASTER_ADDR=localhost   # change for several nodes
NUM_NODES=128
NODE_RANK=0
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))

CHECKPOINT_PATH=$1 #<Specify path>
VOCAB_FILE=$2
MERGE_FILE="$3"

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)

GPT_MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288   # d_model
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto # Can use (flash/fused/unfused/local)
)

TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 1536
    --rampup-batch-size 16 16 5859375
    --train-iters 500000
    --weight-decay 0.1
    --fp16
    --lr 6.0e-5
    --min-lr 6.0e-6
)

MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size 16
)

DATA_ARGS=(
    --vocab-file $VOCAB_FILE
    --merge-file $MERGE_FILE
    --split 949,50,1
)

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\
    ${GPT_MODEL_ARGS[@]} \\
    ${TRAINING_ARGS[@]} \\
    ${MODEL_PARALLEL_ARGS[@]} \\
    ${DATA_ARGS[@]}
"""

LLAMA = """#!/bin/bash
TP_SIZE=${TP_SIZE:-4}
CP_SIZE=2
PP=4
LAYERS=80
WORLD_SIZE=${WORLD_SIZE:-256}
USE_FP8=1
cat << EOF > notes.txt
--num-layers 1 is no argument here
EOF

if [ "$USE_FP8" -eq 1 ]; then
    PRECISION="--bf16 --fp8-format hybrid"
fi

MODEL="--num-layers $LAYERS --hidden-size 8192 --ffn-hidden-size=28672 \\
  --num-attention-heads 64 --group-query-attention --num-query-groups 8 \\
  --swiglu --normalization RMSNorm --position-embedding-type rope \\
  --untie-embeddings-and-output-weights --disable-bias-linear \\
  --attention-dropout 0.0 --hidden-dropout 0.0"
ARGS="$MODEL --seq-length 8192 --max-position-embeddings 8192 \\
  --vocab-size 128256 --tokenizer-type NullTokenizer"
OPTIMIZER=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
OPTIMIZER+=(--optimizer adam "--clip-grad" '1.0')

run="python -u pretrain_gpt.py $ARGS $PRECISION \\
  --micro-batch-size 1 --global-batch-size 512 \\
  --tensor-model-parallel-size ${TP_SIZE} --context-parallel-size ${CP_SIZE} \\
  --pipeline-model-parallel-size $PP \\
  --num-layers-per-virtual-pipeline-stage $(( LAYERS / PP / 5 )) \\
  --sequence-parallel --recompute-activations ${OPTIMIZER[*]}"
srun bash -c "$run"
"""

MIXTURE_YAML = """
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
WORLD_SIZE: 64
MODEL_ARGS:
  --num-layers: 28   # the first one dense
  --hidden-size: 2048
  --num-attention-heads: 16
  --ffn-hidden-size: 10944
  --swiglu: true
  --untie-embeddings-and-output-weights: True
  --disable-bias-linear: true
  --normalization: RMSNorm
  --position-embedding-type: rope
  --seq-length: 4096
  --vocab-size: 102400
  --num-experts: 64
  --moe-router-topk: 6
  --moe-ffn-hidden-size: 1408
  --moe-shared-expert-intermediate-size: 2816
  --moe-layer-freq: "([0]+[1]*27)"
  --expert-model-parallel-size: 8
  --micro-batch-size: 2
  --global-batch-size: 512
  --attention-dropout: 0.0
  --hidden-dropout: 0.0
  --overlap-grad-reduce: false
  --use-distributed-optimizer: true
  --lr: null
  --bf16: true
"""
