checkpoint;
