ALL=[]
